"""Types of flags: a duration, a namespace, a node, a pod, a URL. ``--help`` loads it: no slow imports."""

import re
from typing import Any, Final, NamedTuple

import click

from gpushare.model.names import is_object_name
from gpushare.model.urls import is_http_url

_DURATION: Final = re.compile(r"([1-9][0-9]{0,3})([mhdw])", re.ASCII)
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SECONDS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Duration(NamedTuple):
    """A time as the user wrote it, and in seconds."""

    text: str
    seconds: int


class DurationType(click.ParamType[Duration]):
    """Such as ``24h``, ``7d`` or ``2w``."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Duration:
        """Fails for anything else."""
        found = _DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not a duration such as 90m, 24h, 7d or 2w", param, ctx)
        return Duration(str(value), int(found[1]) * _SECONDS[found[2]])


class NamespaceType(click.ParamType[str]):
    """The name of a namespace. Others, such as ``..``, would be another path of the API."""

    name = "namespace"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Fails for anything else."""
        if not _NAMESPACE.fullmatch(str(value)):
            self.fail(f"{value!r} is not the name of a namespace, such as team-a", param, ctx)
        return str(value)


class NodeType(click.ParamType[str]):
    """The name of a node. Others would be another path of the API, or another field selector."""

    name = "node"
    example = "gpu-1"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Fails for anything else."""
        if not is_object_name(str(value)):
            self.fail(f"{value!r} is not the name of a {self.name}, such as {self.example}", param, ctx)
        return str(value)


class PodType(NodeType):
    """The name of a pod, which has the same form."""

    name = "pod"
    example = "trainer-0"


class SchedulerType(NodeType):
    """The name of a scheduler, which is also that of its Lease."""

    name = "scheduler"
    example = "gpushare-scheduler"


class UrlType(click.ParamType[str]):
    """The address of an HTTP service; the last slash is dropped."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Fails for anything else."""
        if not is_http_url(str(value)):
            self.fail(f"{value!r} is not a URL such as http://127.0.0.1:9090", param, ctx)
        return str(value).rstrip("/")
