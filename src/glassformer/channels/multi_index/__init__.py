"""Channels of several rows of fields."""
