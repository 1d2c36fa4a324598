"""Every option of a service is a key of its section or owned by the manifest, and arrives in the process."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final, cast

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components import config
from components.config_extender import Extender, Webhook
from components.config_monitoring import Board, Exporter, MetricsApi
from components.decode import spelled
from components.manifests import everything
from components.options import ServiceOptions, arguments, option_of, service_of
from components.stack import load
from gpushare.errors import ConfigError
from gpushare.extender.settings import ExtenderSettings
from gpushare.runtime.settings import LogLevel, options_of
from tests.support.builders.services import SERVICES, settings_in
from tests.support.builders.stacks import DIGEST, raw_stack, sidecar

Object = dict[str, Any]
CA: Final = "-----BEGIN CERTIFICATE-----"


def monitored(**parts: Object) -> Object:
    return raw_stack(monitoring={"exporter": {"image": DIGEST}, **parts})


def with_webhook(options: Object) -> Object:
    webhook = {"tlsSecret": "t", "caBundle": CA, **options}
    extender = sidecar(scheduler={"image": DIGEST, "webhook": webhook})
    return raw_stack(extender=extender, kubernetesVersion="1.35")


SECTIONS: Final[Mapping[str, tuple[type[Any], Callable[[Object], Object]]]] = {
    "extender": (Extender, lambda options: raw_stack(extender=options)),
    "extender.scheduler.webhook": (Webhook, with_webhook),
    "devicePlugins[0]": (config.DevicePlugin, lambda options: raw_stack(pools=[options])),
    "isolation": (config.Isolation, lambda options: raw_stack(isolation={"image": DIGEST, **options})),
    "mps": (config.Mps, lambda options: raw_stack(mps={"image": DIGEST, **options})),
    "monitoring.exporter": (
        Exporter,
        lambda options: monitored(exporter={"image": DIGEST, **options}),
    ),
    "monitoring.metricsApi": (
        MetricsApi,
        lambda options: monitored(metricsApi={"image": DIGEST, "tlsSecret": "t", "caBundle": CA, **options}),
    ),
    "monitoring.board": (
        Board,
        lambda options: monitored(board={"image": DIGEST, "tlsSecret": "t", **options}),
    ),
}


def service(where: str) -> ServiceOptions:
    found = service_of(SECTIONS[where][0])
    assert found
    return found


def options() -> list[tuple[str, str, click.Option]]:
    """Section, name of the field and option of every key that was made of an option."""
    return [
        (where, each.name, option)
        for where, (section, _) in SECTIONS.items()
        for each in fields(section)
        if (option := option_of(each))
    ]


def containers(raw: Object) -> Iterator[Object]:
    for each in everything(load(raw)):
        spec = each.get("spec", {})
        yield from spec.get("template", {}).get("spec", {}).get("containers", ())


def container_of(where: str, raw: Object) -> Object:
    """The container that runs the service of the section."""
    (found,) = [
        each
        for each in containers(raw)
        for words, (_, kind) in SERVICES.items()
        if issubclass(service(where).settings, kind) and tuple(each.get("command", ())[: len(words)]) == words
    ]
    return found


def other_value(option: click.Option) -> Any:
    """A valid value other than the default."""
    kind, default = option.type, cast("Any", option.default)
    if isinstance(kind, click.Choice):
        return next(each for each in kind.choices if each != default)
    if isinstance(kind, click.types.BoolParamType):
        return not default
    if isinstance(kind, click.types.FloatParamType):
        return default * 0.9
    if isinstance(kind, click.types.IntParamType):
        return (default or 0) + 1
    # A list of XID errors is a text too.
    return "http://prometheus:9090" if option.type.name == "url" else "31"


@pytest.mark.parametrize(
    ("where", "name", "option"),
    [pytest.param(*each, id=f"{each[0]}.{spelled(each[1])}") for each in options()],
)
def test_a_key_arrives_in_the_settings_of_the_service(where: str, name: str, option: click.Option) -> None:
    value = other_value(option)
    container = container_of(where, SECTIONS[where][1]({spelled(name): value}))
    expected = option.type.convert(value, None, None)
    assert getattr(settings_in(container, object), name) == expected != option.default


@pytest.mark.parametrize("where", SECTIONS)
def test_an_option_that_is_not_set_is_not_written(where: str) -> None:
    section, raw = SECTIONS[where]
    written = {each.partition("=")[0] for each in container_of(where, raw({}))["command"]}
    made = {
        flag
        for each in fields(section)
        if (option := option_of(each))
        for flag in (*option.opts, *option.secondary_opts)
    }
    assert not written & made


@pytest.mark.parametrize("where", SECTIONS)
def test_an_option_is_a_key_of_the_section_or_owned_by_the_manifest_for_a_reason(where: str) -> None:
    section, found = SECTIONS[where][0], service(where)
    visible = {name for name, option in options_of(found.settings).items() if not option.hidden}
    assert found.owned.keys() <= visible
    assert visible - found.owned.keys() <= {each.name for each in fields(section)}
    assert all(found.owned.values())


@pytest.mark.parametrize("where", SECTIONS)
def test_extra_arguments_come_last_and_win(where: str) -> None:
    raw = SECTIONS[where][1]({"extraArgs": ["--log-level=error"]})
    container = container_of(where, raw)
    assert container["command"][-1] == "--log-level=error"
    assert settings_in(container, object).log_level is LogLevel.ERROR  # type: ignore[attr-defined]


def test_foreign_programs_get_extra_arguments_too() -> None:
    scheduler = sidecar(scheduler={"image": DIGEST, "extraArgs": ["--v=4"]})
    prometheus = {"image": DIGEST, "extraArgs": ["--log.level=debug"]}
    raw = raw_stack(extender=scheduler, monitoring={"exporter": {"image": DIGEST}, "prometheus": prometheus})
    last = [(each.get("args") or each["command"])[-1] for each in containers(raw)]
    assert {"--v=4", "--log.level=debug"} <= set(last)


@given(number=st.floats(min_value=0.1, max_value=1e9), count=st.integers(min_value=0), lease=st.booleans())
def test_any_value_is_parsed_as_it_was_written(*, number: float, count: int, lease: bool) -> None:
    section = load(raw_stack(extender={"eventsPerSecond": number, "shortlist": count})).extender
    command, kind = SERVICES["gpushare", "extender"]
    with command.make_context("extender", arguments(section, allow_without_lease=lease)) as context:
        found = kind(**{name: context.params[name] for name in options_of(kind)})
    assert isinstance(found, ExtenderSettings)
    assert (found.events_per_second, found.shortlist, found.allow_without_lease) == (number, count, lease)


@pytest.mark.parametrize(
    ("where", "options", "text"),
    [
        ("extender", {"bindTimeout": 0}, "extender.bindTimeout: 0 is not allowed; use more than 0"),
        ("extender", {"bindTimeout": "3"}, "extender.bindTimeout: '3' is not a number"),
        ("extender", {"bindTimeout": True}, "extender.bindTimeout: true is not a number"),
        ("extender", {"bindTimeout": float("nan")}, "extender.bindTimeout: NaN is not allowed; use more"),
        (
            "extender",
            {"bindTimeout": 12},
            "extender: durations must rise: 0 < bindTimeout < renewDeadline < leaseDuration; given 12, 10",
        ),
        (
            "devicePlugins[0]",
            {"deviceIdStrategy": "name"},
            "devicePlugins[0].deviceIdStrategy: 'name' is not allowed; use one of uuid, index",
        ),
        ("devicePlugins[0]", {"kubeletPort": 70000}, "kubeletPort: 70000 is not allowed; use 1 to 65535"),
        ("devicePlugins[0]", {"ignoredXids": "31,x"}, "devicePlugins[0]: ignored XIDs '31,x': 'x' is not a"),
        (
            "devicePlugins[0]",
            {"healthCheck": "no"},
            "devicePlugins[0].healthCheck: 'no' is not true or false",
        ),
        ("mps", {"extraArgs": "--x"}, "mps.extraArgs: '--x' is not a list"),
        ("mps", {"state": "/x"}, "mps.state: unknown key; use one of image, nodeLabels"),
    ],
)
def test_an_invalid_value_is_an_error_with_the_key_the_value_and_what_is_allowed(
    where: str, options: Object, text: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        load(SECTIONS[where][1](options))
