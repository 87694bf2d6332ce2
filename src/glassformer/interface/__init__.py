"""Command line and figures."""
