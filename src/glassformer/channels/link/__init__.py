"""Channels of any link of one field.

- ``channel``: the public :class:`LinkChannel`, with Gaussian noise or none
- ``label_law``, ``label_noise``: discrete labels of a given law; discrete labels with label noise
- ``contract``: from a user's function to a link that is safe to evaluate on many samples
- ``tracing``: whether JAX can trace and differentiate a link, and whether its labels are positions
- ``piecewise``: jumps, kinks, flat parts and monotone branches of a link, and its inverse on these
- ``posterior``: interface of the posterior of a field given its label, and the affine case
- ``level_set``: labels without noise
- ``noisy``: labels with noise; ``noisy_labels`` and ``noisy_fields`` average over them, on ``posterior_panels``
- ``chebyshev``: averages at many variances, interpolated from few
- ``prediction_errors``: errors of predictions of a new label
- ``exponents``: information and generative exponent, second moments
- ``quadrature``: rules over a Gaussian field and their refinement
"""
