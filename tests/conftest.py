"""Tests keep nothing in the user's cache folder."""

import os

os.environ["GLASSFORMER_CACHE"] = "off"
