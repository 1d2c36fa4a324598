"""Settings that are declared once: fields of a frozen dataclass, from which options of a command are made.

A field has its type with bounds, its default, its help and its variable. The option of the command line, the
reference page and the key of a stack (``components.options``) follow from it. What does not belong here: the
settings of one service, and how a daemon runs (``runtime.flags``).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from functools import cache, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import click

_KEY: Final = "setting"
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Setting:
    """What the command line says about a field.

    ``flag`` is the name of the option if it is not that of the field. With ``is_go`` it is parsed as by Go
    programs: with one dash or two, and a boolean may have a value. A default that is no value stands at the
    end of ``help``, as ``  [default: ...]``.
    """

    help: str
    env: str | None = None
    metavar: str | None = None
    flag: str = ""
    is_go: bool = False
    is_hidden: bool = False


def setting(
    default: Any = MISSING,
    *,
    help: str,  # noqa: A002 - as click names it
    env: str | None = None,
    metavar: str | None = None,
    flag: str = "",
    is_go: bool = False,
    is_hidden: bool = False,
) -> Any:
    """A field with its default (required without one), and what the command line says about it."""
    said = Setting(help, env, metavar, flag, is_go, is_hidden)
    return field(default=default, metadata={_KEY: said})


class FiniteRange(click.FloatRange):
    """A number in a range. click accepts ``nan`` in all of them, and ``inf`` in most."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Fails for anything else."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not in the range of finite numbers.", param, ctx)
        return number


class _Member(click.Choice[str]):
    """A member of an enumeration, by its value."""

    def __init__(self, kind: type[StrEnum], *, case_sensitive: bool = True) -> None:
        super().__init__([str(each) for each in kind], case_sensitive=case_sensitive)
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Fails for a text that is no member."""
        is_member = isinstance(value, self._kind)  # click would look for its name
        return value if is_member else self._kind(super().convert(value, param, ctx))


class LogLevel(StrEnum):
    """Minimum level of log messages."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of our certificate and key, and of the CA of the peers."""

    cert: str
    key: str
    client_ca: str


LISTENING_PORT: Final = click.IntRange(0, 65535)
"""0 selects a free port."""

Port = Annotated[int, click.IntRange(1, 65535)]
ListeningPort = Annotated[int, LISTENING_PORT]
Seconds = Annotated[float, FiniteRange(min=0, min_open=True)]
NotNegative = Annotated[float, FiniteRange(min=0)]

# Settings of several services; each has its own default.
OpsHost = Annotated[str, Setting(help="Address of the admin server; :: is any.")]
OpsPort = Annotated[
    ListeningPort,
    Setting(
        help="Port of the admin server: /healthz, /readyz, /metrics; 0 selects a free port.", env="OPS_PORT"
    ),
]
Kubeconfig = Annotated[
    str | None, Setting(help="Path of a kubeconfig; default: the service account.", env="KUBECONFIG")
]
Level = Annotated[
    LogLevel,
    _Member(LogLevel, case_sensitive=False),
    Setting(help="Minimum level of log messages.", env="LOG_LEVEL"),
]
NodeName = Annotated[str, Setting(help="Name of this node, required.", env="NODE_NAME")]
"""Of daemons that run on each node; "" if it is not set, which ``runtime.flags.check_node_name`` finds."""
DriverRoot = Annotated[
    Path | None,
    Setting(
        help="Root folder of the driver, such as /run/nvidia/driver, to find NVML below it.  [default: the "
        "library path of this process]"
    ),
]
"""Of daemons that use NVML."""
TlsCert = Annotated[str, Setting(help="Certificate of this server; reloaded when it changes.")]
TlsKey = Annotated[str, Setting(help="Private key of the certificate.")]
"""Of servers with TLS; "" if they are not set, which ``runtime.flags.check_certificate`` finds."""
ApiServicePort = Annotated[
    ListeningPort,
    Setting(help="Port for the API server's requests; 0 selects a free port.", env="PORT"),
]
ApiServiceHost = Annotated[str, Setting(help="Address for the API server's requests; :: is any.")]
"""Of servers that the API server calls."""


def options_of(kind: type[Any]) -> Mapping[str, click.Option]:
    """The option of each field, by the name of the field."""
    return _options(cast("Any", kind))


@cache
def _options(kind: Any) -> Mapping[str, click.Option]:
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: _option(each, hints[each.name]) for each in fields(kind)}


def settings_command(
    kind: type[S], *, epilog: str, name: str | None = None
) -> Callable[[Callable[..., None]], click.Command]:
    """A decorator: the function becomes a command with the options of the settings.

    It gets the settings as its first argument, and options of its own after them.
    """
    options = options_of(kind)

    def decorate(function: Callable[..., None]) -> click.Command:
        @wraps(function)
        def call(**given: Any) -> None:
            function(kind(**{each: given.pop(each) for each in options}), **given)

        return click.command(
            name,
            params=list(options.values()),
            context_settings={"show_default": True, "help_option_names": ["-h", "--help"]},
            epilog=epilog,
        )(call)

    return decorate


def _option(each: Any, hint: Any) -> click.Option:
    kind, marks = _flat(hint)
    said = each.metadata.get(_KEY) or next(mark for mark in marks if isinstance(mark, Setting))
    flag = said.flag or each.name.replace("_", "-")
    is_list = get_origin(kind) is tuple
    names = [f"--{flag}", f"-{flag}"] if said.is_go else [f"--{flag}"]
    more: dict[str, Any] = {}
    if kind is bool and said.is_go:
        more = {"is_flag": False, "flag_value": True, "metavar": "[BOOL]"}
    elif kind is bool:
        more = {"is_flag": True}
        names = [f"--{flag}/--no-{flag}"] if each.default is True else names
    else:
        more = {"metavar": said.metavar, "multiple": is_list}
    return click.Option(
        [*names, each.name],
        type=_type(get_args(kind)[0] if is_list else kind, marks),
        help=said.help,
        envvar=said.env,
        hidden=said.is_hidden,
        show_default=each.default != "",  # the help says what an empty text means
        **more,
        **_default(each.default),
    )


def _default(value: Any) -> dict[str, Any]:
    """The default as on the command line: click would show the name of a member instead of its value."""
    if value is MISSING:
        return {"required": True}
    if value == ():
        return {}
    return {"default": str(value) if isinstance(value, StrEnum) else value}


def _flat(hint: Any) -> tuple[Any, list[Any]]:
    """The type without None and without its marks, and the marks."""
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        kind, further = _flat(inner)
        return kind, [*further, *marks]
    if get_origin(hint) in (Union, UnionType):
        (inner,) = (each for each in get_args(hint) if each is not NoneType)
        return _flat(inner)
    return hint, []


def _type(kind: Any, marks: list[Any]) -> Any:
    """The type for click: that of the marks, or one for the class."""
    for mark in marks:
        if isinstance(mark, click.ParamType):
            return mark
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if issubclass(kind, StrEnum):
        return _Member(kind)
    return click.Path(path_type=Path) if kind is Path else kind
