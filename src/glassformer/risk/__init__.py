"""Regularised risk in the limit of large sizes: losses, penalties, and the fixed points that they make."""
