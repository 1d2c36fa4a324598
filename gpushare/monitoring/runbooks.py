"""The runbooks of the alerts, from the page that the package has, for people at a terminal.

``make generate PART=monitoring`` copies the page from the documentation.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

_LINK: Final = re.compile(r"\[([^]]*)\]\([^)]*\)")
_BOLD: Final = re.compile(r"\*\*([^*]+)\*\*")


@cache
def runbooks() -> Mapping[str, str]:
    """The text of each runbook by the name of its alert, in the order of the page."""
    return sections_of(files("gpushare.monitoring").joinpath("runbooks.md").read_text("utf-8"))


def sections_of(page: str) -> dict[str, str]:
    """The sections of a page by their titles, without links and marks of Markdown."""
    parts = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    return {part.partition("\n")[0].strip(): _plain(part.partition("\n")[2]) for part in parts}


def _plain(text: str) -> str:
    return _BOLD.sub(r"\1", _LINK.sub(r"\1", text)).strip()


def meaning_of(runbook: str) -> str:
    """Its first sentence."""
    paragraph = " ".join(runbook.partition("\n\n")[0].removeprefix("Meaning.").split())
    return f"{paragraph.partition('. ')[0].rstrip('.')}."
