"""What the engine did or would do, from its log of events. Pure.

The log has one JSON document a line, as ``pulumi <command> --event-log`` writes them and
github.com/pulumi/pulumi/sdk/v3/go/common/apitype/events.go describes them.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_NOTHING = ("same", "read", "refresh")


@dataclass(frozen=True)
class Step:
    """What happens to one resource.

    ``op`` is the engine's word: same, create, update, delete, …; ``object`` is "<kind>/<namespace>/<name>"
    for an object of Kubernetes, without the namespace where it has none, and empty for other resources.
    ``diff`` has the changed properties' paths.
    """

    op: str
    type: str
    urn: str
    object: str
    diff: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What one command of the engine did, or with a preview would do; ``text`` is what it printed."""

    steps: tuple[Step, ...]
    text: str

    @property
    def objects(self) -> tuple[Step, ...]:
        """The steps of Kubernetes' objects."""
        return tuple(step for step in self.steps if step.object)

    @property
    def changes(self) -> dict[str, str]:
        """What happens to which object of Kubernetes, without those to which nothing does."""
        return {step.object: step.op for step in self.objects if step.op not in _NOTHING}

    def step(self, wanted: str) -> Step:
        """The step of one object of Kubernetes."""
        (found,) = [step for step in self.objects if step.object == wanted]
        return found


def outcome_of(events: Iterable[str], text: str) -> Outcome:
    """Return the outcome; of several words about a resource, the last counts."""
    steps: dict[str, Step] = {}
    for line in events:
        event = json.loads(line)
        for kind in ("resourcePreEvent", "resOutputsEvent"):
            if kind in event:
                step = _step(event[kind]["metadata"])
                steps[step.urn] = step
    return Outcome(tuple(steps.values()), text)


def _step(metadata: Mapping[str, Any]) -> Step:
    state = metadata.get("new") or metadata.get("old") or {}
    return Step(
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
