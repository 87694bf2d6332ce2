"""The papers' figures, computed and drawn."""
