"""Sphinx configuration; draws the pictures first.

``DOCS_SOURCE`` is the URL of the folder docs of the repository, such as
``https://github.com/owner/gpushare/blob/main/docs``: with it, each page links to its source.
"""

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from diagrams import main as draw  # noqa: E402 - after the path
from terminal import main as draw_terminal  # noqa: E402

project = "gpushare"
author = "The gpushare authors"
copyright = "2026, the gpushare authors"  # noqa: A001 - Sphinx's name
version = release = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"].get("version", "")
extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 3
nitpicky = True
smartquotes_action = "qe"  # no dashes: flags begin with two hyphens

html_theme = "furo"
html_title = f"gpushare {version}".strip()
html_logo = "logo.svg"
html_favicon = "logo.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_use_index = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "light_css_variables": {"color-brand-primary": "#2a6aa5", "color-brand-content": "#2a6aa5"},
    "dark_css_variables": {"color-brand-primary": "#7db4e6", "color-brand-content": "#7db4e6"},
}
if source := os.environ.get("DOCS_SOURCE"):
    html_theme_options["source_view_link"] = f"{source}/{{filename}}"

# A copied block runs: only lines after a prompt, without it and without what they print.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_remove_prompts = True
copybutton_line_continuation_character = "\\"


def chinese(_app: Any, page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """The pages of the folder ``zh`` declare their language."""
    context["language"] = "zh-CN" if page.startswith("zh/") else "en"


def columns(_app: Any, tree: nodes.document, page: str) -> None:
    """Tables have their number of columns as a class, those of the reference one more: for ``site.css``."""
    for table in tree.findall(nodes.table):
        table["classes"].append(f"columns-{len(list(table.findall(nodes.colspec)))}")
        if page.startswith("reference/"):
            table["classes"].append("reference")


def setup(app: Any) -> None:
    """Sphinx calls it once."""
    app.connect("html-page-context", chinese)
    app.connect("doctree-resolved", columns)


draw()
draw_terminal()
