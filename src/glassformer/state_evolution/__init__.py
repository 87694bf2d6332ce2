"""State evolution and what follows from it."""
