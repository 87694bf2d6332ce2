"""Data of one's own: how they come in, and what they contradict."""
