"""Designs: random or observed inputs, and the linear maps from signals to fields."""
