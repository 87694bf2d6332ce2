"""Channels of attention indices of extensive width.

- ``named``: channels by name, or from a user's function of the indices
- ``linear``, ``softmax``: labels that determine linear functions of the indices; ``projected`` is their base
- ``hardmax``: the position of the largest index of each row, of two tokens in closed form; ``hardmax_triple`` and
  ``hardmax_sampled`` of three and more
- ``noisy``: any function of the indices with Gaussian noise, by importance sampling
- ``deep``: several attention layers
- ``prediction``: errors on new labels
"""
