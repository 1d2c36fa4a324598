"""The files of the chart without Helm; ``tests/integration/test_chart.py`` renders it."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import click
import pytest
import yaml

from components import config
from components.decode import spelled
from components.formats import CPU, DURATION, LABEL_KEY, LABEL_VALUE, NAME, PATH, REGISTRY, STORAGE
from components.manifests import everything
from components.manifests.parts import Object
from components.options import service_of
from components.stack import load
from gpushare.contract import SYSTEM_NAMESPACE
from gpushare.errors import ConfigError
from gpushare.runtime.settings import options_of
from release.chart import chart, linked, with_images
from release.recipe import ROOT
from tests.support.builders.chart_values import IMAGES, NOT_IN_CHART, OLDEST, values_of, without_others
from tests.support.builders.settings_alone import alone, around

FOLDER = ROOT / "charts/gpushare"
TEMPLATES = {path.name: path.read_text() for path in sorted((FOLDER / "templates").iterdir())}
TEXT = (FOLDER / "values.yaml").read_text()
VALUES = yaml.safe_load(TEXT)
COMMENTED = yaml.safe_load(re.sub(r"^( *)# ([a-z]\w+: \S+)$", r"\1\2", TEXT, flags=re.MULTILINE))
"""With the options that are unset, whose lines are comments."""
SCHEMA = json.loads((FOLDER / "values.schema.json").read_text())
PAGE = ROOT / "docs/how-to/deploy-with-helm.md"
MAPS = (
    "commonLabels",
    "commonAnnotations",
    "images",
    "resources",
    "nodeSelector",
    "affinity",
    "operatorLabels",
)
MORE = ("podLabels", "podAnnotations", "image", "certificatesImage")


def leaves(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict) and path.rpartition(".")[2] not in (*MAPS, *MORE):
        for key, each in value.items():
            yield from leaves(each, f"{path}.{key}".strip("."))
    else:
        yield path


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    reference = part.get("$ref", "").removeprefix("#/definitions/")
    return SCHEMA["definitions"][reference] if reference else part


def known(part: dict[str, Any], path: str = "") -> Iterator[str]:
    inside = resolved(part).get("properties")
    if inside is None or path.rpartition(".")[2] in (*MAPS, *MORE):
        yield path
        return
    assert resolved(part)["additionalProperties"] is False, path
    for key, each in inside.items():
        yield from known(each, f"{path}.{key}".strip("."))


def test_the_schema_knows_every_value_and_no_other() -> None:
    assert set(known(SCHEMA)) - {"global"} == set(leaves(COMMENTED))


def test_every_value_has_a_comment_or_a_name_that_helm_users_know() -> None:
    usual = {
        *("resources", "requests", "limits", "priorityClassName", "tolerations", "nodeSelector", "affinity"),
        *("maxUnavailable", "podLabels", "podAnnotations", "extraArgs", "extraEnv"),
    }
    lines = TEXT.splitlines()
    for before, line in pairwise(lines):
        key = re.match(r" *(?:# )?([a-z]\w*):(?: |$)", line)
        if key and not before.lstrip().startswith("#"):
            assert key[1] in usual or key[1] in IMAGES, line


def test_every_setting_of_a_stack_is_a_value_or_is_listed_with_a_reason() -> None:
    assert set(NOT_IN_CHART) <= {spelled(each.name) for each in fields(config.Stack)}
    values = set(known(SCHEMA))
    for name, stack in alone():
        assert set(leaves(values_of(without_others(stack)))) <= values, name


def test_every_setting_alone_changes_the_stack() -> None:
    """So that a chart without it would not be equal."""
    unchanged = {name for name, stack in alone() if objects_of(stack) == objects_of(around(name))}
    assert unchanged == {"extender.tls.stack"}  # the default without `adopt`


def objects_of(stack: dict[str, Any]) -> list[Object] | None:
    """None for a stack that only the other value makes valid."""
    try:
        return everything(load(stack))
    except ConfigError:
        return None


def test_the_page_has_the_keys_that_the_chart_lacks() -> None:
    listed = re.findall(r"^\| `([a-zA-Z]+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert {key: reason.rstrip() for key, reason in listed if key in NOT_IN_CHART} == NOT_IN_CHART


def test_amounts_and_names_match_the_patterns_of_the_stack() -> None:
    text = json.dumps(SCHEMA, ensure_ascii=False)
    for form in (DURATION, LABEL_KEY, LABEL_VALUE, NAME, PATH, REGISTRY, STORAGE):
        assert json.dumps(form.pattern, ensure_ascii=False)[1:-1] in text, form.pattern
    quantity = re.compile(SCHEMA["definitions"]["quantity"]["pattern"])
    for amount in ("1", "500m", "0.5", "512Mi", "20Gi"):
        assert quantity.match(amount)
        assert CPU.fullmatch(amount) or not amount[-1].isdigit() or amount.endswith("m")


def sections(kind: type[Any] = config.ClusterSettings, path: str = "") -> Iterator[tuple[str, type[Any]]]:
    """The sections with options, by their path in the values."""
    for each in fields(kind):
        hint = get_type_hints(kind)[each.name]
        for own in (hint, *get_args(hint)):
            if is_dataclass(own) and isinstance(own, type):
                key = f"{path}.{spelled(each.name)}".strip(".").replace("devicePlugins", "devicePlugin")
                yield from [(key, own)] if service_of(own) else []
                yield from sections(own, key)


def options(kind: type[Any]) -> Iterator[tuple[str, click.Option]]:
    """The options of a section that are keys, by key."""
    service = service_of(kind)
    assert service
    for name, option in options_of(service.settings).items():
        if name not in service.owned and not option.hidden:
            yield spelled(name), option


SECTIONS = dict(sections())


@pytest.mark.parametrize("section", SECTIONS)
def test_the_flags_of_a_service_are_its_options(section: str) -> None:
    name = section.rpartition(".")[2]
    defined = re.search(
        rf'define "gpushare.options.{name}" -}}}}\n(.*?)\n{{{{', TEMPLATES["_options.tpl"], re.DOTALL
    )
    assert defined
    assert defined[1].splitlines() == [line_of(key, option) for key, option in options(SECTIONS[section])]


def line_of(key: str, option: click.Option) -> str:
    """The key; then the flag that turns a switch off, or the flag if its name is not that of the key."""
    flag = max(option.opts, key=len)
    if option.default is True:
        return f"{key} {option.secondary_opts[0] if option.secondary_opts else f'{flag}=false'}"
    usual = "--" + re.sub("([A-Z])", r"-\1", key).lower()
    return key if flag == usual else f"{key} {flag}"


@pytest.mark.parametrize("section", SECTIONS)
def test_the_schema_has_type_and_bounds_of_each_option(section: str) -> None:
    part = SCHEMA
    for key in section.split("."):
        part = resolved(part["properties"][key])
    for key, option in options(SECTIONS[section]):
        own = resolved(part["properties"][key])
        kind = option.type
        if isinstance(kind, click.Choice):
            assert sorted(own["enum"]) == sorted(kind.choices), key
        elif isinstance(kind, click.FloatRange | click.IntRange):
            lowest = "exclusiveMinimum" if kind.min_open else "minimum"
            assert (own[lowest], own.get("maximum")) == (kind.min, kind.max), key
            assert ("integer" in own["type"]) == isinstance(kind, click.IntRange), key
        elif "enum" not in own:
            simple = "boolean" if isinstance(kind, click.types.BoolParamType) else "string"
            assert own["type"] == ("array" if option.multiple else simple), key


@pytest.mark.parametrize("section", SECTIONS)
def test_an_option_that_is_unset_is_a_comment_with_the_default_of_the_service(section: str) -> None:
    values, commented = VALUES, COMMENTED
    for key in section.split("."):
        values, commented = values[key], commented[key]
    unset = {key: option for key, option in options(SECTIONS[section]) if key not in values}
    stated = {key: option.default for key, option in unset.items() if option.default not in (None, "")}
    # The manifest has another default for sidecars.
    assert {key: commented[key] for key in stated} | {"shortlist": 0} == stated | {"shortlist": 0}


def test_objects_are_in_the_namespace_of_the_release_which_is_that_of_the_services() -> None:
    for name, text in TEMPLATES.items():
        places = [line for line in text.splitlines() if "kube-system" in line]
        assert not places or name == "validation.yaml", places
    assert f'ne .Release.Namespace "{SYSTEM_NAMESPACE}"' in TEMPLATES["validation.yaml"]


def test_only_a_release_has_links() -> None:
    files = chart(IMAGES, ROOT)
    assert b"https://" not in files["Chart.yaml"]
    assert yaml.safe_load(files["values.yaml"])["monitoring"]["runbooks"] == ""
    made = linked(files, "https://git.internal/gpus", "https://git.internal/gpus/runbooks.md")
    assert yaml.safe_load(made["Chart.yaml"])["home"] == "https://git.internal/gpus"
    assert (
        yaml.safe_load(made["values.yaml"])["monitoring"]["runbooks"]
        == "https://git.internal/gpus/runbooks.md"
    )


def test_the_chart_needs_the_oldest_version_that_is_compared() -> None:
    assert yaml.safe_load((FOLDER / "Chart.yaml").read_text())["kubeVersion"] == f">={OLDEST}.0-0"


def test_a_release_names_its_images_and_changes_nothing_else() -> None:
    files = chart(IMAGES, ROOT)
    values = yaml.safe_load(files["values.yaml"])
    assert values["images"] == {name: IMAGES[name] for name in VALUES["images"]}
    assert values | {"images": {}} == VALUES | {"images": {}}
    assert files["files/alerts.yaml"] == (ROOT / "components/monitoring/alerts.yaml").read_bytes()
    assert files["templates/extender.yaml"].decode() == TEMPLATES["extender.yaml"]


def test_the_image_of_another_project_may_be_missing() -> None:
    own = {name: image for name, image in IMAGES.items() if name != "prometheus"}
    assert '  prometheus: ""' in with_images(TEXT, own)
    with pytest.raises(ConfigError, match=r"images\.json has no image cli: run make images"):
        with_images(TEXT, {name: image for name, image in own.items() if name != "cli"})
