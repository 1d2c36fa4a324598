"""Types of flags: a duration, a number of nodes, a name, a URL. ``--help`` loads it: no slow imports."""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import click

from gpushare.contract import RESOURCE_MEM
from gpushare.model.names import is_object_name
from gpushare.model.urls import is_http_url

_DURATION: Final = re.compile(r"([1-9][0-9]{0,3})([mhdw])", re.ASCII)
_ALLOWANCE: Final = re.compile(r"([0-9]{1,5})(%?)", re.ASCII)
_UNITS: Final = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)
POD_KINDS: Final = "pod pods po"
"""The words for pods that kubectl takes."""
_ALL: Final = 100
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SECONDS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Duration(NamedTuple):
    """A time as the user wrote it, and in seconds."""

    text: str
    seconds: int


class Allowance(NamedTuple):
    """How many nodes may be in a state, as the user wrote it: a number, or a percentage of all."""

    text: str
    number: int
    is_percentage: bool

    def of(self, nodes: int) -> int:
        """The number, rounded down."""
        return nodes * self.number // _ALL if self.is_percentage else self.number


class _Duration(click.ParamType[Duration]):
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Duration:
        """Fails for anything else."""
        found = _DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not a duration such as 90m, 24h, 7d or 2w", param, ctx)
        return Duration(str(value), int(found[1]) * _SECONDS[found[2]])


class _Allowance(click.ParamType[Allowance]):
    name = "allowance"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Allowance:
        """Fails for anything else."""
        found = _ALLOWANCE.fullmatch(str(value))
        if found is None or (found[2] and int(found[1]) > _ALL):
            self.fail(f"{value!r} is not a number or a percentage such as 3 or 10%", param, ctx)
        return Allowance(str(value), int(found[1]), bool(found[2]))


class _Units(click.ParamType[int]):
    name = "units"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Fails for anything else."""
        if not (found := _UNITS.fullmatch(str(value))):
            self.fail(
                f"{value!r} is not a number of units of {RESOURCE_MEM} (GiB by default): for 4Gi write 4",
                param,
                ctx,
            )
        return int(found[0])


class _Text(click.ParamType[str]):
    """A text of one form; ``what`` is the form in words, with an example.

    ``kinds`` are the words that kubectl takes before a name and a slash.
    """

    def __init__(self, name: str, what: str, is_valid: Callable[[str], object], kinds: str = "") -> None:
        self.name = name
        self._what = what
        self._is_valid = is_valid
        self._kinds = kinds.split()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Fails for anything else."""
        kind, _, name = str(value).partition("/")
        found = name if kind in self._kinds else str(value)
        if not self._is_valid(found):
            self.fail(f"{value!r} is not {self._what}", param, ctx)
        return found


ALLOWANCE: Final = _Allowance()
"""Such as ``3`` or ``10%``."""
UNITS: Final = _Units()
"""Such as ``24``."""
DURATION: Final = _Duration()
"""Such as ``24h``, ``7d`` or ``2w``."""
# Names of another form would be another path of the API, such as ``..``, or another field selector.
NAMESPACE: Final = _Text("namespace", "the name of a namespace, such as team-a", _NAMESPACE.fullmatch)
NODE: Final = _Text("node", "the name of a node, such as gpu-1", is_object_name, "node nodes no")
POD: Final = _Text("pod", "the name of a pod, such as trainer-0", is_object_name, POD_KINDS)
SCHEDULER: Final = _Text("scheduler", "the name of a scheduler, such as gpushare-scheduler", is_object_name)
"""Also the name of its Lease."""
URL: Final = _Text("url", "a URL such as http://127.0.0.1:9090", is_http_url)
