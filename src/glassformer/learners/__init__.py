"""What is done with data, each with its theory and its algorithm."""
