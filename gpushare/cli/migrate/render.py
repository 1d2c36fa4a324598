"""A migration as text, as a versioned document for programs, and as manifests. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from gpushare.cli.lib.screen import serialized
from gpushare.cli.migrate.findings import FindingEffect, Migration, MigrationFinding, System, counts
from gpushare.overview.documents import document


def text(found: Migration) -> str:
    """For a terminal."""
    if not found.findings:
        return "No object of the Aliyun gpushare pair, of ACK or of HAMi was found.\n"
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Migration) -> Iterator[str]:
    for system in System:
        own = [each for each in found.findings if each.system is system]
        if own:
            yield from (f"{system}:", *_rows(own), "")
    yield ", ".join(_counted(number, verdict) for verdict, number in counts(found.findings).items())
    if found.manifests:
        yield f"Converted manifests (-o yaml): {len(found.manifests)}"


def _counted(number: int, verdict: FindingEffect) -> str:
    return f"{number} {verdict if number == 1 else str(verdict).removesuffix('s')}"


def _rows(findings: Sequence[MigrationFinding]) -> Iterator[str]:
    for each in findings:
        yield f"  {each.verdict:<14} {each.subject}"
        yield f"  {'':<14}   {each.text}"


def report_document(found: Migration, notes: Iterable[str]) -> dict[str, Any]:
    """For programs."""
    return document(
        "MigrationReport",
        findings=[{key: str(value) for key, value in asdict(each).items()} for each in found.findings],
        converted=list(found.manifests),
        notConverted=list(found.refused),
        notes=list(notes),
    )


def manifests(found: Migration) -> str:
    """The converted manifests, for ``kubectl apply -f -``."""
    return "".join(serialized(each, "yaml") for each in found.manifests)
