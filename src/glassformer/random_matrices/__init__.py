"""Free probability: laws of the singular values of large random matrices.

- ``rectangular``, ``rectangular_curve``, ``rectangular_inverse``: a noisy product of Gaussian factors
- ``symmetric``: a noisy Wishart matrix
- ``atoms``, ``rectangular_atoms``, ``symmetric_atoms``: any spectrum; ``given``: spectra of users
- ``estimated``: the denoiser of an empirical law; ``nuclear_norm``: thresholds of its minimisation
"""
