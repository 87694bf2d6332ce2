"""Configuration of the documentation: `make docs` builds it into docs/_build."""

project = "glassformer"
author = "The glassformer developers"
extensions = [
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
source_suffix = [".md", ".rst"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {"description": "Exact limits of learning from sequences of tokens", "fixed_sidebar": True}
html_title = "glassformer"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_custom_sections = [("Source", "notes")]
myst_heading_anchors = 3
plot_include_source = True
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 110)]
plot_rcparams = {
    "figure.figsize": (5.6, 3.8),
    "font.size": 10,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
plot_apply_rcparams = True
