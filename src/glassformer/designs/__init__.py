"""What is seen: inputs and the fields they make of a signal."""
