"""What is reported: output channels."""
