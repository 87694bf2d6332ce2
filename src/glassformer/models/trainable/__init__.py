"""What of a model is trained by gradients: its signal as a function of parameters."""
