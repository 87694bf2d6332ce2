"""The loops and gradients that learners are made of."""
