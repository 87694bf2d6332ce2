"""Errors, results, statuses, settings, identity, caches, files and progress; nothing of the theory."""
