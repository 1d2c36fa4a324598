"""Checks the prose and the identifiers of the checkout against ``vocabulary.toml``: ``make lint`` runs it."""

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
CHECKED: Final = frozenset({".j2", ".md", ".py", ".toml", ".yaml", ".yml"})
EXCLUDED: Final = (
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


class Phrase(NamedTuple):
    """A phrase to avoid, and what to write in its place."""

    pattern: re.Pattern[str]
    better: str


class Finding(NamedTuple):
    """A phrase in a text; ``line`` counts from 1."""

    line: int
    text: str
    better: str


def phrases(table: Mapping[str, str]) -> list[Phrase]:
    """Compile a table of the vocabulary."""
    return [
        Phrase(re.compile(rf"(?:{words.lower().replace(' ', _BREAK)})(?!\w)"), better)
        for words, better in table.items()
    ]


def find(text: str, avoided: Iterable[Phrase]) -> Iterator[Finding]:
    """Yield each occurrence of a phrase, phrase by phrase, in lower case."""
    lower = text.lower()
    for phrase in avoided:
        for match in phrase.pattern.finditer(lower):
            start = match.start()
            if not _WORD_BEFORE.fullmatch(
                lower, max(0, start - 1), start
            ):  # in the pattern it is ten times slower
                yield Finding(lower.count("\n", 0, start) + 1, " ".join(match[0].split()), phrase.better)


def checked_files() -> Iterator[Path]:
    """Yield the tracked files that the vocabulary applies to."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S607 - the developer's git
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        excluded = any(fnmatchcase(name, each) for each in EXCLUDED)
        if path.suffix in CHECKED and not excluded and path.is_file() and not path.is_symlink():
            yield path


def report(files: Iterable[Path], avoided: Sequence[Phrase]) -> int:
    """Print every occurrence as ``file:line: phrase → better wording``; return how many there are."""
    count = 0
    for path in files:
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        for line, text, better in sorted(find(path.read_text(), avoided)):
            _print(f'{name}:{line}: "{text}" → {better}')
            count += 1
    return count


def main(arguments: Sequence[str]) -> int:
    """Check the files in ``arguments``, else all. Returns 1 if a phrase was found, else 0."""
    table = tomllib.loads(TABLE.read_text())
    files = [Path(each).resolve() for each in arguments] or list(checked_files())
    return int(report(files, phrases(table["banned"])) > 0)


def _print(line: str) -> None:
    print(line)  # noqa: T201 - the output of the command


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
