"""Sphinx configuration; draws the pictures first."""

import sys
from pathlib import Path

project = "gpushare"
author = "The gpushare authors"
copyright = "2026, the gpushare authors"  # noqa: A001 - Sphinx's name
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "gpushare"
myst_heading_anchors = 3
nitpicky = True

sys.path.insert(0, str(Path(__file__).parent))

from diagrams import main as draw  # noqa: E402 - after the path

draw()
