"""CDI specifications as container runtimes read them: the devices that they name. Pure.

The rules are those of the library that containerd and CRI-O use, ``tags.cncf.io/container-device-interface``
(``pkg/cdi/cache.go``, ``specs-go/version.go`` of 0.8.1, 1.0.1 and 1.1.0, read on 2026-11-28). It ignores a
file with a version that it does not know. Of several files that name a device, the one in the later folder
counts; if they are in one folder, the device does not exist.

What does not belong here: reading the files, and which runtimes have which version (``device_lists``).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpushare.contract import ENV_VISIBLE_DEVICES
from gpushare.errors import InvalidRequest

VERSIONS: Final = (
    "0.1.0",
    "0.2.0",
    "0.3.0",
    "0.4.0",
    "0.5.0",
    "0.6.0",
    "0.7.0",
    "0.8.0",
    "1.0.0",
    "1.1.0",
)
"""The released versions of the specification, the oldest first."""
SUFFIXES: Final = (".json", ".yaml")
"""Of the files that runtimes read."""
_NO_GPU: Final = frozenset({f"{ENV_VISIBLE_DEVICES}={value}" for value in ("", "none", "void")})


@dataclass(frozen=True, slots=True)
class CdiSpec:
    """One file. ``priority`` is the number of its folder, ``names`` are its devices without the kind.

    ``hides_variable`` is whether it replaces the container's own ``NVIDIA_VISIBLE_DEVICES`` by a value
    without GPUs, as all files of NVIDIA's toolkit do.
    """

    path: str
    priority: int
    version: str
    kind: str
    names: frozenset[str]
    hides_variable: bool = True

    def is_readable(self, newest: str) -> bool:
        """Whether a runtime whose newest version is ``newest`` reads it."""
        return self.version in VERSIONS[: VERSIONS.index(newest) + 1]


def parse_spec(path: str, priority: int, text: str) -> CdiSpec:
    """The specification in a file. Raises InvalidRequest if it is none."""
    try:
        # YAML includes JSON, but the parser for it is faster.
        document = json.loads(text) if path.endswith(".json") else _yaml(text)
        return _spec(path, priority, document)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise InvalidRequest(f"{path} is no CDI specification: {error}") from error


def _yaml(text: str) -> Any:
    """The document in a text. Raises ValueError."""
    import yaml  # noqa: PLC0415 - daemons on nodes without such files do not load it

    try:
        # Specifications have thousands of lines.
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe one
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def _spec(path: str, priority: int, document: Mapping[str, Any]) -> CdiSpec:
    edits = [document.get("containerEdits"), *(each.get("containerEdits") for each in document["devices"])]
    of_file, *of_devices = map(_hides_variable, edits)
    return CdiSpec(
        path,
        priority,
        str(document["cdiVersion"]).removeprefix("v"),
        str(document["kind"]),
        frozenset(str(each["name"]) for each in document["devices"]),
        of_file or (bool(of_devices) and all(of_devices)),
    )


def _hides_variable(edits: Mapping[str, Any] | None) -> bool:
    variables = [
        each for each in (edits or {}).get("env") or () if each.startswith(f"{ENV_VISIBLE_DEVICES}=")
    ]
    return bool(variables) and variables[-1] in _NO_GPU


def devices_of(specs: Iterable[CdiSpec], kind: str) -> dict[str, CdiSpec]:
    """The devices of a kind by name, each with the file that counts."""
    found: dict[str, CdiSpec] = {}
    for spec in sorted(specs, key=lambda each: each.priority):
        if spec.kind == kind:
            found |= dict.fromkeys(spec.names, spec)
    clashing = clashes(specs, kind)
    return {name: spec for name, spec in found.items() if name not in clashing}


def clashes(specs: Iterable[CdiSpec], kind: str) -> dict[str, tuple[str, str]]:
    """The devices of a kind that two files of one folder name, and both paths."""
    first: dict[tuple[int, str], str] = {}
    found: dict[str, tuple[str, str]] = {}
    for spec in specs:
        for name in spec.names if spec.kind == kind else ():
            path = first.setdefault((spec.priority, name), spec.path)
            if path != spec.path:
                found[name] = (path, spec.path)
    return found
