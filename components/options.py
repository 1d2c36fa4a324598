"""Options of the services as keys of a stack: a section has a key for each option that no manifest owns.

The options are those of the settings of a service (``gpushare.runtime.settings``), so that an option is
declared once. What belongs here: the fields of a section, the format of one value, and the arguments of a
container. What does not: which options manifests own (``components.services``), and keys that are no option
(``components.config``).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import click

from components.decode import shown, spelled
from gpushare.errors import ConfigError
from gpushare.runtime.settings import options_of

C = TypeVar("C")

EXTRA_ARGS: Final = "Arguments that the program gets after all others, as they are."
"""The meaning of ``extraArgs``."""
_OPTION: Final = "option"
_SERVICE: Final = "__service__"


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """The settings of a service, those that its manifest owns with the reason, and their check."""

    settings: type[Any]
    owned: Mapping[str, str]
    check: Callable[[Any], None] | None = None


def accepts(service: ServiceOptions) -> Callable[[type[C]], type[C]]:
    """A decorator below ``dataclass``: the section also has a key for each option of the service.

    Options that the manifest owns, hidden ones and those that the section declares itself are left out. An
    option that is not set is not written, so that the service has its own default.
    """

    def add(section: type[C]) -> type[C]:
        for name, option in _free(service).items():
            if name not in section.__annotations__:
                _add(section, name, _kind(option) | None, {_OPTION: option})
        _add(section, "extra_args", tuple[str, ...], {}, default=())
        setattr(section, _SERVICE, service)
        return section

    return add


def _add(section: type[Any], name: str, kind: Any, notes: Mapping[str, Any], default: Any = None) -> None:
    section.__annotations__[name] = kind
    setattr(section, name, field(default=default, metadata=notes))


def _free(service: ServiceOptions) -> Mapping[str, click.Option]:
    """The options that the manifest does not own."""
    return {
        name: option
        for name, option in options_of(service.settings).items()
        if name not in service.owned and not option.hidden
    }


def _kind(option: click.Option) -> Any:
    """The type of the key."""
    if isinstance(option.type, click.types.BoolParamType):
        return bool
    if isinstance(option.type, click.types.FloatParamType):
        return float
    if isinstance(option.type, click.types.IntParamType):
        return int
    return str


def option_of(each: Any) -> click.Option | None:
    """The option from which a field of a section was made; None for a field that is declared there."""
    found: click.Option | None = each.metadata.get(_OPTION)
    return found


def service_of(section: type[Any]) -> ServiceOptions | None:
    """The service of a section; None if it has no options."""
    found: ServiceOptions | None = getattr(section, _SERVICE, None)
    return found


def meaning_of(each: Any) -> str | None:
    """The text of a field that is not declared in its section, without the default."""
    option = option_of(each)
    if option is None:
        return EXTRA_ARGS if each.name == "extra_args" else None
    return (option.help or "").partition("  [default: ")[0]


def default_of(option: click.Option) -> str:
    """The default of the service, as its help states it."""
    stated = (option.help or "").partition("  [default: ")[2].removesuffix("]")
    if stated or option.default is None:
        return stated
    return str(option.default).lower() if isinstance(option.default, bool) else f"{option.default}"


def accepted(kind: click.ParamType[Any]) -> str:
    """The values that an option accepts, in words; empty if its type says it."""
    if isinstance(kind, click.Choice):
        return f"one of {', '.join(kind.choices)}"
    if not isinstance(kind, click.IntRange | click.FloatRange):
        return ""
    if kind.min_open:
        return f"more than {kind.min:g}"
    return f"{kind.min:g} to {kind.max:g}" if kind.max else f"{kind.min:g} or more"


def check_options(where: str, section: Any) -> None:
    """Checks the values of a section as its service does. Raises ConfigError for the first violation."""
    service = service_of(type(section))
    if service is None:
        return
    given = dict(_given(section, service))
    for name, value in given.items():
        _check_value(f"{where}.{spelled(name)}", options_of(service.settings)[name], value)
    _check_together(where, service, given)


def _given(section: Any, service: ServiceOptions) -> Iterator[tuple[str, Any]]:
    """The options that are set."""
    for name in _free(service):
        value = getattr(section, name)
        if value is not None:
            yield name, value


def _check_value(where: str, option: click.Option, value: object) -> None:
    for each in value if isinstance(value, tuple) else (value,):
        try:
            option.type.convert(each, None, None)
        except click.BadParameter as error:
            allowed = accepted(option.type)
            hint = f"is not allowed; use {allowed}" if allowed else f"is not allowed: {error.message}"
            raise ConfigError(f"{where}: {shown(each)} {hint}") from error


def _check_together(where: str, service: ServiceOptions, given: Mapping[str, Any]) -> None:
    if service.check is None:
        return
    try:
        service.check(service.settings(**given))
    except ConfigError as error:
        raise ConfigError(f"{where}: {_in_keys(str(error), service)}") from error


def _in_keys(text: str, service: ServiceOptions) -> str:
    """An error of a service, whose flags are keys here."""
    keys = {max(option.opts, key=len): spelled(name) for name, option in _free(service).items()}
    return re.sub(r"--[a-z-]*[a-z]", lambda flag: keys.get(flag[0], flag[0]), text)


def arguments(section: Any, **given: object) -> list[str]:
    """The arguments of a service: what its manifest gives, the options of its section, its extra arguments.

    ``given`` are values of options that the manifest owns, and defaults of others; None leaves one out.
    """
    service = service_of(type(section))
    assert service  # noqa: S101 - of a section of a service
    options, flags = options_of(service.settings), list[str]()
    assert given.keys() <= options.keys()  # noqa: S101 - a wrong name would be left out in silence
    for name, option in options.items():
        own = getattr(section, name, None) if name not in service.owned else None
        flags += _flags(option, given.get(name) if own is None else own)
    return [*flags, *section.extra_args]


def _flags(option: click.Option, value: object) -> list[str]:
    flag = max(option.opts, key=len)
    if value is None or (isinstance(value, bool) and value == option.default):
        return []
    if isinstance(value, tuple):
        return [f"{flag}={each}" for each in value]
    if value is True:
        return [flag]
    if value is False:
        return [option.secondary_opts[0] if option.secondary_opts else f"{flag}=false"]
    return [f"{flag}={value}"]
