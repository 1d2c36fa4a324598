"""Types of flags: a duration, a number of nodes, a name, a URL. ``--help`` loads it: no slow imports."""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import click

from gpushare.model.names import is_object_name
from gpushare.model.urls import is_http_url

_DURATION: Final = re.compile(r"([1-9][0-9]{0,3})([mhdw])", re.ASCII)
_ALLOWANCE: Final = re.compile(r"([0-9]{1,5})(%?)", re.ASCII)
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


class _Text(click.ParamType[str]):
    """A text of one form; ``what`` is the form in words, with an example."""

    def __init__(self, name: str, what: str, is_valid: Callable[[str], object]) -> None:
        self.name = name
        self._what = what
        self._is_valid = is_valid

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Fails for anything else."""
        if not self._is_valid(str(value)):
            self.fail(f"{value!r} is not {self._what}", param, ctx)
        return str(value)


ALLOWANCE: Final = _Allowance()
"""Such as ``3`` or ``10%``."""
DURATION: Final = _Duration()
"""Such as ``24h``, ``7d`` or ``2w``."""
# Names of another form would be another path of the API, such as ``..``, or another field selector.
NAMESPACE: Final = _Text("namespace", "the name of a namespace, such as team-a", _NAMESPACE.fullmatch)
NODE: Final = _Text("node", "the name of a node, such as gpu-1", is_object_name)
POD: Final = _Text("pod", "the name of a pod, such as trainer-0", is_object_name)
SCHEDULER: Final = _Text("scheduler", "the name of a scheduler, such as gpushare-scheduler", is_object_name)
"""Also the name of its Lease."""
URL: Final = _Text("url", "a URL such as http://127.0.0.1:9090", is_http_url)
