"""Free probability: laws of the singular values of large random matrices."""
