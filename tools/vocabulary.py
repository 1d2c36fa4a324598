"""Checks texts and code of the checkout against ``vocabulary.toml``: ``make lint`` runs it.

Words inside identifiers with underscores are not checked.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
TABLE: Final = Path(__file__).with_suffix(".toml")
CHECKED: Final = frozenset(
    {"", ".c", ".cfg", ".h", ".j2", ".md", ".py", ".service", ".toml", ".yaml", ".yml"}
)
EXCLUDED: Final = (
    "LICENSE",
    "ansible/plugins/plugin_utils/gpushare/*",  # copies
    "ansible/roles/*/README.md",  # generated, as are the next two
    "components/monitoring/*",
    "tests/components/snapshots/*",
    "examples/original/*",  # by other authors, as is what the next one quotes
    "tests/contract/*",
    "tests/unit/test_vocabulary.py",
    "tools/vocabulary.*",
)
_BREAK: Final = r"\s+(?:(?:#|//|>|\*|\"|f\")\s*)*"
"""Between two words: white space, which may contain the marks of comments, quotes and strings."""
_WORD_BEFORE: Final = re.compile(r"\w")


class VocabularyError(Exception):
    """The table or a file to check cannot be read; the message names it."""


class Phrase(NamedTuple):
    """A phrase to avoid, and what to write in its place."""

    pattern: re.Pattern[str]
    better: str


class Finding(NamedTuple):
    """A phrase in a text; ``line`` counts from 1."""

    line: int
    text: str
    better: str


def read_table(path: Path) -> list[Phrase]:
    """Read the table ``[banned]`` of a file. Raises VocabularyError."""
    try:
        return phrases(tomllib.loads(_read(path))["banned"])
    except KeyError as error:
        raise VocabularyError(f"{_shown(path)}: there is no table [banned]") from error
    except tomllib.TOMLDecodeError as error:
        raise VocabularyError(f"{_shown(path)}: {error}") from error


def phrases(table: Mapping[str, str]) -> list[Phrase]:
    """Compile the phrases of a table. Raises VocabularyError."""
    return [Phrase(_compiled(words), better) for words, better in table.items()]


def _compiled(words: str) -> re.Pattern[str]:
    if words != words.lower():
        raise VocabularyError(f'"{words}": phrases are written in lower case')
    try:
        return re.compile(rf"(?:{words.replace(' ', _BREAK)})(?!\w)")
    except re.error as error:
        raise VocabularyError(f'"{words}" is not a regular expression: {error}') from error


def find(text: str, avoided: Iterable[Phrase]) -> Iterator[Finding]:
    """Yield each occurrence of a phrase, phrase by phrase, in lower case."""
    lower = text.lower()
    for phrase in avoided:
        for match in phrase.pattern.finditer(lower):
            start = match.start()
            if not _WORD_BEFORE.fullmatch(
                lower, max(0, start - 1), start
            ):  # in the pattern it is ten times slower
                yield Finding(lower.count("\n", 0, start) + 1, re.sub(_BREAK, " ", match[0]), phrase.better)


def checked_files() -> Iterator[Path]:
    """Yield the tracked files that the vocabulary applies to."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S607 - the developer's git
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        excluded = any(fnmatchcase(name, each) for each in EXCLUDED)
        if path.suffix in CHECKED and not excluded and path.is_file() and not path.is_symlink():
            yield path


def report(files: Iterable[Path], avoided: Sequence[Phrase]) -> int:
    """Print every occurrence as ``file:line: "phrase" → better wording``; return how many there are.

    Raises VocabularyError for a file that is not readable as text.
    """
    count = 0
    for path in files:
        for line, text, better in sorted(find(_read(path), avoided)):
            _print(f'{_shown(path)}:{line}: "{text}" → {better}')
            count += 1
    return count


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise VocabularyError(f"{_shown(path)}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise VocabularyError(f"{_shown(path)}: {error}") from error


def _shown(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def main(arguments: Sequence[str], table: Path = TABLE) -> int:
    """Check the files in ``arguments``, else all. Returns 1 if a phrase was found, 2 on errors, else 0."""
    try:
        count = report([Path(each).resolve() for each in arguments] or checked_files(), read_table(table))
    except VocabularyError as error:
        _print(f"vocabulary: {error}")
        return 2
    if count:
        _print(f"vocabulary: {count} found; {_shown(table)} lists phrases to avoid and what to write instead")
    return int(count > 0)


def _print(line: str) -> None:
    print(line)  # noqa: T201 - the output of the command


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
