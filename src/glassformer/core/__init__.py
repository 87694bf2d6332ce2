"""What every room uses: errors, results, settings, identity, files."""
