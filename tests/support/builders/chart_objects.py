"""Objects of the chart and of a stack in one form, in which they can be compared."""

import json
import re
from collections.abc import Iterable
from typing import Any, Final

import yaml

from components.manifests.parts import Object

_RELEASE_LABELS: Final = (
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
)
_OWN_ANNOTATIONS: Final = (
    "helm.sh/resource-policy",
    "helm.sh/hook",
    "helm.sh/hook-delete-policy",
    "checksum/config",
    "checksum/files",
)
"""Of one of the two only, or digests of texts that are written differently."""
_FILES: Final = ("config.yaml", "prometheus.yml")
"""Of ConfigMaps: the same documents, written differently."""
_DIGEST: Final = re.compile(r"-[0-9a-f]{8}$")


def by_identity(objects: Iterable[Object]) -> dict[tuple[str, str, str], Object]:
    """Comparable objects, by kind, namespace and name."""
    found = {}
    for each in json.loads(json.dumps(list(objects))):
        meta = each["metadata"]
        if each["kind"] == "Job":
            meta["name"] = _DIGEST.sub("", meta["name"])
        found[each["kind"], meta.get("namespace", ""), meta["name"]] = _comparable(each)
    return found


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    if not isinstance(value, dict):
        return value
    comparable = {key: _comparable(_part(key, each)) for key, each in value.items()}
    return {key: each for key, each in comparable.items() if key not in ("labels", "annotations") or each}


def _part(key: str, value: Any) -> Any:
    if key == "labels" and isinstance(value, dict):
        return {name: each for name, each in value.items() if name not in _RELEASE_LABELS}
    if key == "annotations" and isinstance(value, dict):
        return {name: each for name, each in value.items() if name not in _OWN_ANNOTATIONS}
    if key in ("command", "args"):
        return sorted(value, key=lambda each: each if each.startswith("-") else "")
    return yaml.safe_load(value) if key in _FILES else value
