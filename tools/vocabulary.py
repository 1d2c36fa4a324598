"""Checks that texts and code use the terms of the field: ``make lint`` runs it.

``TERMS`` has the words to avoid, a line each. The glossary of ``docs/architecture.md`` explains the terms.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TERMS: Final = {
    "ailing": "unhealthy",
    "closed cards?": "unschedulable GPU",
    "control groups?": "cgroup",
    "households?": "node state, allocations",
    "multiprocessors?": "SM, GPU utilization",
    "parts? of a card's time": "compute share",
    "reduced mode": "degraded mode",
    "source documents?": "the ACK documentation; the Aliyun plugin or extender",
    "strays?": "uncounted process",
    "(?<!multi-)tenanc(?:y|ies)": "allocation; GPU pod",
    "the originals?": "Aliyun gpushare; of a file or value: previous",
}
"""Regular expressions of whole words, and the term; a space also matches the line break of a comment."""
_BREAK: Final = r"\s+(?:(?:#|//|>|\*)\s*)?"
_AVOIDED: Final = {
    re.compile(rf"\b(?:{words.replace(' ', _BREAK)})\b", re.IGNORECASE): better
    for words, better in TERMS.items()
}
_EXCLUDED: Final = (
    "*.json",
    "*.lock",
    "*.sum",
    "LICENSE",
    "components/monitoring/",  # generated
    "examples/original/",  # by other authors, as is what the next one quotes
    "tests/contract/",
    "tests/repository/test_vocabulary.py",
    "tools/vocabulary.py",
)


def find(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the words and the term for each occurrence; lines count from 1."""
    for pattern, better in _AVOIDED.items():
        for match in pattern.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), better


def _files() -> Iterator[str]:
    """The tracked files that have lines of text (``-I -e ''``), without the excluded ones."""
    command = ["git", "grep", "-lzI", "-e", "", "--", *(f":!{each}" for each in _EXCLUDED)]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603 - fixed words
    yield from filter(None, listed.stdout.split("\0"))


def main() -> int:
    """Print each occurrence in the checkout. Returns 1 if there is one, else 0."""
    found = [(name, *each) for name in _files() for each in find((ROOT / name).read_text())]
    for name, line, words, better in found:
        print(f'{name}:{line}: "{words}" → {better}')  # noqa: T201 - the output of the command
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
