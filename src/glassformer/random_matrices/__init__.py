"""Free probability: laws of the singular values of large random matrices.

- ``rectangular``, ``rectangular_curve``, ``rectangular_inverse``: a noisy product of Gaussian factors
- ``symmetric``: a noisy Wishart matrix
- ``atoms``, ``rectangular_atoms``, ``symmetric_atoms``: any spectrum; ``given``: spectra of users
- ``anisotropic_ridge``: ridge regression on features of any covariance; ``sample_covariance``: their resolvent
- ``estimated``: the denoiser of an empirical law; ``nuclear_norm``: thresholds of its minimisation
"""
