"""Configuration of the documentation: `make docs` builds it into docs/_build.

Everything a page needs is copied beside it: mathematics, styles and search work without a network.
"""

import importlib.metadata
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

# Compiled in two thirds of the time, for programs that run up to twice as long: galleries run most of them once.
# The second flag compiles a program in one part; tests have the same flags, so that both share their programs.
# From version 0.11 on the compiler ends the process where it sees the first flag.
if tuple(map(int, importlib.metadata.version("jaxlib").split(".")[:2])) < (0, 11):
    faster = " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + faster

project = "glassformer"
author = "The glassformer developers"
project_copyright = "the glassformer developers"
extensions = [
    "catalogues",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
if not tags.has("checked"):  # noqa: F821, given by Sphinx
    # Pages of the sources take as long to write as all others together, and nothing on them is checked.
    extensions.append("sphinx.ext.viewcode")
source_suffix = [".md", ".rst"]
exclude_patterns = ["_build", "_extensions", "gallery", "tutorials", "auto/*/*.ipynb", "sg_execution_times.rst"]

smartquotes_action = "qe"  # two dashes begin an option

html_theme = "furo"
html_title = "glassformer"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_js_files = ["reference.js"]
html_show_sourcelink = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = False
napoleon_custom_sections = [("Source", "notes")]
napoleon_use_ivar = True
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

sphinx_gallery_conf = {
    "examples_dirs": ["gallery", "tutorials"],
    "gallery_dirs": ["auto/gallery", "auto/tutorials"],
    # The longest tutorials run with all others in `make docs`, and among the tests of many samples.
    "filename_pattern": r"/(?![78]_)[^/]*$" if tags.has("checked") else r"/",  # noqa: F821
    "ignore_pattern": r"_style\.py",
    "within_subsection_order": "catalogues.ByNumber",
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r"matplotlib",
    "write_computation_times": False,
    "reset_modules": ("catalogues.plain_figures",),
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "doc_module": ("glassformer",),
}
