"""The audit log of the API server: its policy and its reader.

What does not belong here: checks of the recorded history.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_WRITES = ["create", "update", "patch", "delete", "deletecollection"]


def policy() -> dict[str, Any]:
    """Return the audit policy: no reads; pods with request and response, nodes and ConfigMaps with request.

    Every entry is written once, after the response.
    """
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "omitManagedFields": True,
        "rules": [
            {"level": "None", "verbs": ["get", "list", "watch"]},
            _rule("RequestResponse", "", ["pods", "pods/*"]),
            _rule("Request", "", ["nodes", "nodes/*", "configmaps"]),
            _rule("None", "coordination.k8s.io", ["leases"]),
            {"level": "Metadata"},
        ],
    }


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of an audit log, without an incomplete last line."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield json.loads(line)


def _rule(level: str, group: str, resources: list[str]) -> dict[str, Any]:
    return {"level": level, "verbs": _WRITES, "resources": [{"group": group, "resources": resources}]}
