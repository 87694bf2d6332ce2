"""Figures of results: ``plots`` has one function for each result, ``style`` the look; results call ``render``."""
