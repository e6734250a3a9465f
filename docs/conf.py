"""Configuration of the documentation, built by `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

import grb_check

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "grb_check"
copyright = "the authors of grb_check"
version = release = grb_check.__version__
html_title = f"grb_check {release}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "public_docstrings",
]
exclude_patterns = ["_build", "extensions", "from_code"]

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "deflist", "dollarmath"]

smartquotes = False  # or options lose a hyphen

# Docstrings write code in single backticks.
default_role = "code"
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "mixed"

# Names of other projects have no target here. What is left are our own names, and texts that
# napoleon takes for a type.
nitpicky = True
nitpick_ignore_regex = [
    ("py:class", r"(collections\.abc|grb_check|hypothesis|pytest|torch|torch_geometric)\..*"),
    ("py:class", r"Path|Model|RunRecord|RegisteredNames|RunSettings|Settings"),
]

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_copy_source = False
copybutton_exclude = ".linenos, .gp, .go"
