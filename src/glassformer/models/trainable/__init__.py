"""Trainable models: the signal as a differentiable function of parameters, for gradient descent."""
