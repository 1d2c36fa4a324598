"""The bundles that containerd passes to the OCI runtime: one per container, with its ``config.json``.

What belongs here: finding and reading bundles. What does not: their folder on a node
(``testbed.kubelets.files``).
"""

import json
from collections.abc import Mapping
from pathlib import Path

from testbed.control_plane.api import Object

_ANNOTATION = "io.kubernetes.cri"


def spec_of(folder: Path, namespace: str, pod: str, container: str) -> Object | None:
    """Return the spec of the newest bundle of a container in ``folder``; None if there is none yet."""
    wanted = {"sandbox-namespace": namespace, "sandbox-name": pod, "container-name": container}
    read = [_read(file) for file in folder.glob("*/config.json")]
    found = [each for each in read if each and _has(each[1], wanted)]
    return max(found, key=lambda each: each[0])[1] if found else None


def _has(spec: Object, wanted: Mapping[str, str]) -> bool:
    notes = spec.get("annotations") or {}
    return all(notes.get(f"{_ANNOTATION}.{key}") == value for key, value in wanted.items())


def _read(file: Path) -> tuple[float, Object] | None:
    try:
        return file.stat().st_mtime, json.loads(file.read_text())
    except (OSError, ValueError):
        # The file is being written or removed.
        return None
