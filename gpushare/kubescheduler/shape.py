"""The fields of a static pod that ``kubescheduler`` reads, and their types.

Not msgspec, which an Ansible controller does not have.
"""

from typing import Any, Final

_REQUIRED: Final = ("metadata", "spec", "name", "port", "containerPort")
_PROBE: Final = {"httpGet": {"port": (int, str)}}
_POD: Final[dict[str, Any]] = {
    "metadata": {"name": str, "annotations": dict},
    "spec": {
        "containers": [
            {
                "command": [object],
                "args": [object],
                "volumeMounts": [{"name": str}],
                "ports": [{"containerPort": int}],
                "livenessProbe": _PROBE,
                "readinessProbe": _PROBE,
            }
        ],
        "volumes": [{"name": str}],
    },
}


def misfit(pod: object) -> str:
    """Return the first field of another type, empty if there is none."""
    return _misfit(pod, _POD, "the document")


def _misfit(value: object, shape: Any, at: str) -> str:
    if isinstance(shape, dict):
        return _misfit_of_fields(value, shape, at) if isinstance(value, dict) else f"{at} is not a mapping"
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{at} is not a list"
        found = (_misfit(each, shape[0], f"{at}[{index}]") for index, each in enumerate(value))
        return next(filter(None, found), "")
    return "" if isinstance(value, shape) else f"{at} is {value!r}"


def _misfit_of_fields(value: dict[str, object], shape: dict[str, Any], at: str) -> str:
    found = (
        _misfit(value.get(name), inner, name if at == "the document" else f"{at}.{name}")
        for name, inner in shape.items()
        if name in _REQUIRED or value.get(name) is not None
    )
    return next(filter(None, found), "")
