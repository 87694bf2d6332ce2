"""Channels of one link function of one field."""
