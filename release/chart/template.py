"""Writes merged objects as templates of Helm. Pure.

What does not belong here: the merge (``release.chart.merge``), the values (``release.chart.values``).
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from release.chart.merge import (
    ALWAYS,
    All,
    Any_,
    Cases,
    Condition,
    Entry,
    Fields,
    Items,
    Scalar,
    Test,
    Tree,
)

_STEP: Final = "  "
_PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_NO_TEXT: Final = re.compile(r"(?i)y|n|yes|no|on|off|true|false|null|nan|inf")
"""Words that YAML does not read as text."""
_PULL_SECRETS: Final = (
    "{{- with .Values.imagePullSecrets }}",
    "imagePullSecrets:",
    "  {{- range . }}",
    "  - name: {{ toJson . }}",
    "  {{- end }}",
    "{{- end }}",
)


@dataclass(frozen=True)
class Language:
    """How conditions and values are written.

    ``tests`` has the expression for each option of each choice; ``slots`` maps a marker, a text in the
    objects, to the expression that replaces it; ``tolerations`` is the default of the value of that name.
    """

    tests: Sequence[Mapping[str, str]]
    slots: Mapping[str, str]
    tolerations: Tree | None = None


@dataclass
class Writer:
    """Writes one object; ``files`` collects long texts, which are files of the chart."""

    language: Language
    name: str
    files: dict[str, str] = field(default_factory=dict)

    def document(self, tree: Tree, test: Test = ALWAYS) -> str:
        """Return a template for an object that exists if the test holds."""
        return "\n".join(self._if(test, ["---", *self.block(tree, 0)])) + "\n"

    def block(self, tree: Tree, depth: int) -> list[str]:
        """Return the lines of a mapping or a list."""
        match tree:
            case Fields(entries):
                own = self._entries(entries, lambda each: self._field(each, depth))
                return own + [f"{_STEP * depth}{line}" for line in _PULL_SECRETS if _is_pod(entries)]
            case Items(entries):
                return self._entries(entries, lambda each: self._item(each.value, depth))
            case Cases(entries):
                return self._cases(entries, lambda value: self.block(value, depth))
            case Scalar(value):
                return [f"{_STEP * depth}{self.scalar(value)}"]

    def scalar(self, value: Any) -> str:
        """Return a scalar, or the expression of a template that makes it."""
        if isinstance(value, str) and "\n" in value:
            return f"{{{{ {self.long_text(value)} | toJson }}}}"
        text = value if isinstance(value, str) else json.dumps(value)
        if marker := self.language.slots.get(text):
            return f"{{{{ {marker} | toJson }}}}"
        if found := self._markers(text):
            return f"{{{{ {self._printf(text, found)} | toJson }}}}"
        if not isinstance(value, str):
            return text
        plain = _PLAIN.fullmatch(value) and not _NO_TEXT.fullmatch(value)
        return value if plain else _escaped(json.dumps(value, ensure_ascii=False))

    def long_text(self, text: str) -> str:
        """Return the expression of a text that is a file of the chart, with values instead of its markers."""
        steps = [f"replace {json.dumps(each)} ({self.language.slots[each]})" for each in self._markers(text)]
        return " | ".join([f".Files.Get {json.dumps(self._file(text))}", *steps])

    def _entries(self, entries: Sequence[Entry], write: Callable[[Entry], list[str]]) -> list[str]:
        """With one condition for neighbours that have the same one."""
        return [
            line
            for test, group in groupby(entries, key=attrgetter("test"))
            for line in self._if(test, [own for each in group for own in write(each)])
        ]

    def _field(self, entry: Entry, depth: int) -> list[str]:
        key = f"{_STEP * depth}{self.scalar(entry.key)}:"
        match entry.value:
            case Scalar(value):
                return [f"{key} {self.scalar(value)}"]
            case Cases(entries):
                return self._cases(entries, lambda value: self._field(Entry(ALWAYS, entry.key, value), depth))
            case value if entry.key == "tolerations" and value == self.language.tolerations:
                return [f"{key} {{{{ toJson .Values.tolerations }}}}"]
            case Fields((Entry(_, marker, _),)) if marker in self.language.slots:
                return [f"{key} {{{{ toJson {self.language.slots[marker]} }}}}"]
            case value:
                return [key, *self.block(value, depth + 1)]

    def _item(self, value: Tree, depth: int) -> list[str]:
        if isinstance(value, Cases):
            return self._cases(value.entries, lambda each: self._item(each, depth))
        pad = _STEP * depth
        if isinstance(value, Scalar):
            return [f"{pad}- {self.scalar(value.value)}"]
        first, *more = self.block(value, depth + 1)
        if first.lstrip().startswith(("{{-", "- ")):
            return [f"{pad}-", first, *more]
        return [f"{pad}- {first.lstrip()}", *more]

    def _cases(self, entries: Sequence[Entry], write: Callable[[Tree], list[str]]) -> list[str]:
        lines: list[str] = []
        for position, each in enumerate(entries):
            is_last = position == len(entries) - 1
            word = "if" if position == 0 else "else if"
            lines.append("{{- else }}" if is_last else f"{{{{- {word} {self.expression(each.test)} }}}}")
            lines += write(each.value)
        return [*lines, "{{- end }}"]

    def _if(self, test: Test, lines: list[str]) -> list[str]:
        if test == ALWAYS:
            return lines
        return [f"{{{{- if {self.expression(test)} }}}}", *lines, "{{- end }}"]

    def expression(self, test: Test) -> str:
        """Return the expression of a test."""
        match test:
            case Condition(choice, options, others):
                if len(others) < len(options):
                    return f"(not {self._one_of(choice, others)})"
                return self._one_of(choice, options)
            case All(parts):
                return self._joined("and", [self.expression(each) for each in parts])
            case Any_(parts):
                return self._joined("or", [self.expression(each) for each in parts])

    def _one_of(self, choice: int, options: frozenset[str]) -> str:
        return self._joined("or", [self.language.tests[choice][each] for each in sorted(options)])

    @staticmethod
    def _joined(word: str, parts: Sequence[str]) -> str:
        return parts[0] if len(parts) == 1 else f"({word} {' '.join(parts)})"

    def _markers(self, text: str) -> list[str]:
        return [each for each in self.language.slots if each in text]

    def _printf(self, text: str, markers: Sequence[str]) -> str:
        pattern = re.compile("|".join(re.escape(each) for each in markers))
        expressions = [f"({self.language.slots[each]})" for each in pattern.findall(text)]
        form = "%v".join(part.replace("%", "%%") for part in pattern.split(text))
        return " ".join(["printf", json.dumps(form), *expressions])

    def _file(self, text: str) -> str:
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        name = f"files/{self.name}-{digest}"
        self.files[name] = text
        return name


def _escaped(text: str) -> str:
    return text.replace("{{", '{{ "{{" }}')


def _is_pod(entries: Sequence[Entry]) -> bool:
    return any(each.key == "containers" for each in entries) and any(
        each.key in ("serviceAccountName", "automountServiceAccountToken") for each in entries
    )


def checks(language: Language, failures: Iterable[tuple[Test, str]]) -> str:
    """Return a template that stops with a message if its test holds."""
    writer = Writer(language, "checks")
    return "".join(
        f"{{{{- if {writer.expression(test)} }}}}{{{{ fail {json.dumps(text)} }}}}{{{{ end }}}}\n"
        for test, text in failures
    )
