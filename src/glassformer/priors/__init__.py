"""What is learned: priors and their denoising problems."""
