"""Parses the event log of the engine: what a command did or would do. Pure.

The log has one JSON document per line, as ``pulumi <command> --event-log`` writes them and
github.com/pulumi/pulumi/sdk/v3/go/common/apitype/events.go describes them.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_NOTHING = ("same", "read", "refresh")


@dataclass(frozen=True)
class PulumiStep:
    """The operation on one resource.

    ``op`` is that of the engine: same, create, update, delete, …; ``object`` is "<kind>/<namespace>/<name>"
    for a Kubernetes object, without the namespace if it has none, and empty for other resources.
    ``diff`` contains the paths of changed properties.
    """

    op: str
    type: str
    urn: str
    object: str
    diff: tuple[str, ...] = ()


@dataclass(frozen=True)
class PulumiOutcome:
    """What one command of the engine did, or would do (preview); ``text`` is its output."""

    steps: tuple[PulumiStep, ...]
    text: str

    @property
    def objects(self) -> tuple[PulumiStep, ...]:
        """The steps of Kubernetes objects."""
        return tuple(step for step in self.steps if step.object)

    @property
    def changes(self) -> dict[str, str]:
        """Kubernetes object → operation, without unchanged objects."""
        return {step.object: step.op for step in self.objects if step.op not in _NOTHING}

    def step(self, wanted: str) -> PulumiStep:
        """Return the step of one Kubernetes object."""
        (found,) = [step for step in self.objects if step.object == wanted]
        return found


def outcome_of(events: Iterable[str], text: str) -> PulumiOutcome:
    """Return the outcome; the last event of a resource counts."""
    steps: dict[str, PulumiStep] = {}
    for line in events:
        event = json.loads(line)
        for kind in ("resourcePreEvent", "resOutputsEvent"):
            if kind in event:
                step = _step(event[kind]["metadata"])
                steps[step.urn] = step
    return PulumiOutcome(tuple(steps.values()), text)


def _step(metadata: Mapping[str, Any]) -> PulumiStep:
    state = metadata.get("new") or metadata.get("old") or {}
    return PulumiStep(
        op=metadata["op"],
        type=metadata["type"],
        urn=metadata["urn"],
        object=_object(metadata["type"], state.get("inputs") or {}),
        diff=tuple(sorted(metadata.get("detailedDiff") or metadata.get("diffs") or ())),
    )


def _object(token: str, inputs: Mapping[str, Any]) -> str:
    if not token.startswith("kubernetes:"):
        return ""
    named = inputs.get("metadata", {})
    return "/".join(filter(None, (token.rpartition(":")[2], named.get("namespace"), named.get("name"))))
