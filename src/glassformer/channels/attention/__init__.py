"""Channels of attention matrices of extensive width."""
