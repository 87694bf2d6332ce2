"""Attention layers trained on real text."""
