"""The chart as files; ``tests/integration/test_chart.py`` renders it with Helm."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.config import ClusterSettings
from components.forms import CPU, STORAGE
from gpushare.contract import RUNBOOKS_URL
from release.chart.build import chart, default_values
from release.chart.merge import (
    ALWAYS,
    All,
    Any_,
    Cases,
    Combination,
    Condition,
    Fields,
    Items,
    Scalar,
    Test,
    Tree,
    merge,
    when,
)
from release.chart.objects import failures, identity, settings_for
from release.chart.schema import schema
from release.chart.template import Language, Writer
from release.chart.values import GROUPS
from tests.builders.chart_values import IMAGES

FILES = chart(IMAGES)
PAIRS: list[Combination] = [(first, second) for first in "ab" for second in "xyz"]
LEAVES: st.SearchStrategy[Any] = st.sampled_from([1, True, "text", "more", None, [], {}])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def holds(test: Test, combination: Combination) -> bool:
    match test:
        case Condition(choice, options, _):
            return combination[choice] in options
        case All(parts):
            return all(holds(each, combination) for each in parts)
        case Any_(parts):
            return any(holds(each, combination) for each in parts)


def value_of(tree: Tree, combination: Combination) -> Any:
    match tree:
        case Scalar(value):
            return value
        case Fields(entries):
            return {
                each.key: value_of(each.value, combination)
                for each in entries
                if holds(each.test, combination)
            }
        case Items(entries):
            return [value_of(each.value, combination) for each in entries if holds(each.test, combination)]
        case Cases(entries):
            (chosen,) = [each for each in entries if holds(each.test, combination)]
            return value_of(chosen.value, combination)


@given(st.lists(VALUES, min_size=len(PAIRS), max_size=len(PAIRS)))
def test_a_merged_tree_has_the_value_of_each_combination(values: list[Any]) -> None:
    variants: dict[Combination, Any] = dict(zip(PAIRS, values, strict=True))
    tree = merge(variants)
    assert {combination: value_of(tree, combination) for combination in PAIRS} == variants


@given(st.sets(st.sampled_from(PAIRS), min_size=1))
def test_a_test_holds_for_the_chosen_combinations_only(chosen: set[Combination]) -> None:
    test = when(frozenset(chosen), frozenset(PAIRS))
    assert {each for each in PAIRS if holds(test, each)} == chosen


def test_what_all_combinations_have_in_common_is_written_once() -> None:
    tree = merge({("a",): {"name": "one", "size": 1}, ("b",): {"name": "one", "size": 2}})
    assert isinstance(tree, Fields)
    assert [(each.key, each.test) for each in tree.entries] == [("name", ALWAYS), ("size", ALWAYS)]
    assert tree.entries[0].value == Scalar("one")
    assert isinstance(tree.entries[1].value, Cases)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("true", '"true"'),
        ("1", '"1"'),
        (1, "1"),
        (None, "null"),
        ({}, "{}"),
        ("a: b", '"a: b"'),
        ("{{ $labels.pod }}", '"{{ "{{" }} $labels.pod }}"'),
        ("@size@", "{{ .Values.size | toJson }}"),
        ("--size=@size@%", '{{ printf "--size=%v%%" (.Values.size) | toJson }}'),
    ],
)
def test_a_scalar_is_read_back_by_yaml_and_not_by_the_template(value: Any, text: str) -> None:
    assert Writer(Language([], {"@size@": ".Values.size"}), "x").scalar(value) == text


def test_a_long_text_is_a_file_of_the_chart() -> None:
    writer = Writer(Language([], {}), "configmap-x")
    line = writer.scalar("one\n{{ two }}\n")
    assert list(writer.files.values()) == ["one\n{{ two }}\n"]
    assert line == f'{{{{ .Files.Get "{next(iter(writer.files))}" | toJson }}}}'


def test_values_are_inserted_in_the_file_of_a_long_text() -> None:
    writer = Writer(Language([], {"@size@": "int .Values.size", "@name@": ".Values.name"}), "configmap-x")
    line = writer.scalar("one\n@name@ and @name@\n")
    assert list(writer.files.values()) == ["one\n@name@ and @name@\n"]
    file = next(iter(writer.files))
    assert line == f'{{{{ .Files.Get "{file}" | replace "@name@" (.Values.name) | toJson }}}}'


def leaves(value: Any, path: str = "") -> set[str]:
    if isinstance(value, dict) and path != "devicePlugin.nodeSelector":
        return {leaf for key, each in value.items() for leaf in leaves(each, f"{path}.{key}".strip("."))}
    return {path}


def test_every_value_is_used_and_every_used_value_exists() -> None:
    templates = "".join(text for name, text in FILES.items() if name.startswith("templates/"))
    used = set(re.findall(r"\.Values\.([A-Za-z.]+[A-Za-z])", templates)) | {"registry"}
    used |= {f"images.{name}" for name in re.findall(r'index \.Values\.images "([a-z-]+)"', templates)}
    assert used - {"images"} == leaves(default_values(IMAGES))


def test_no_marker_is_left_in_a_template() -> None:
    for name, text in FILES.items():
        assert not re.search(r"@[a-zA-Z.]+@|90000000\d|sha256:0{63}", text) or name == "values.yaml", name


def test_the_schema_knows_every_value_and_no_other_keys() -> None:
    def known(part: Any, path: str = "") -> set[str]:
        inside = part.get("properties")
        if inside is None:
            return {path}
        assert part["additionalProperties"] is False
        return {leaf for key, each in inside.items() for leaf in known(each, f"{path}.{key}".strip("."))}

    assert known(schema()) - {"global"} == leaves(default_values(IMAGES))


def test_every_integer_has_limits() -> None:
    def integers(part: Any) -> list[Any]:
        own = [part] if part.get("type") == "integer" else []
        return own + [each for inside in part.get("properties", {}).values() for each in integers(inside)]

    limits = [(each.get("minimum"), each.get("maximum")) for each in integers(schema())]
    assert limits == [(1, 3)]


def test_combinations_that_the_stack_rejects_are_errors_of_the_chart_with_the_same_text() -> None:
    rejected = {text for _, _, text in failures()}
    assert any("sidecar with 2 replicas needs certificates" in each for each in rejected)
    checks = FILES["templates/checks.yaml"]
    assert all(json.dumps(each) in checks for each in rejected)


def test_amounts_match_the_patterns_of_the_stack() -> None:
    assert schema()["properties"]["mps"]["properties"]["cpu"]["pattern"] == f"^({CPU.pattern})$"
    storage = schema()["properties"]["monitoring"]["properties"]["prometheus"]["properties"]["storage"]
    assert storage["pattern"] == f"^({STORAGE.pattern})?$"


def test_the_job_of_the_certificates_is_one_object_whatever_its_content() -> None:
    job = {"kind": "Job", "metadata": {"name": "gpushare-certificates-01234567"}}
    assert identity(job) == ("Job", "gpushare-certificates")


def test_the_settings_of_a_combination_have_markers() -> None:
    group = GROUPS["isolation"]
    settings: ClusterSettings = settings_for(group, ("true", "present"))
    assert settings.extender.cpu == "@extender.cpu@"
    assert settings.isolation is not None
    assert settings_for(group, ("false", "absent")).isolation is None


def test_the_options_of_a_choice_are_not_changed_by_those_of_another() -> None:
    claim = FILES["templates/persistentvolumeclaim-gpushare-prometheus.yaml"]
    assert claim.startswith(
        "{{- if (and .Values.monitoring.enabled .Values.monitoring.prometheus.storage) }}"
    )


def test_the_library_can_be_removed_from_the_nodes_before_the_chart_is_uninstalled() -> None:
    installer = FILES["templates/daemonset-cgpu-installer.yaml"]
    assert '{{- if (eq .Values.isolation.state "absent") }}' in installer
    assert "uninstall" in installer
    assert default_values(IMAGES)["isolation"]["state"] == "present"
    state = schema()["properties"]["isolation"]["properties"]["state"]
    assert state == {"type": "string", "pattern": "^(present|absent)$"}


def test_alerts_link_to_the_page_of_the_stack_by_default() -> None:
    assert default_values(IMAGES)["monitoring"]["runbooks"] == RUNBOOKS_URL
    assert "# URL of the page with the runbooks, to which alerts link." in FILES["values.yaml"]


def test_data_and_the_mps_daemon_stay_when_the_chart_is_uninstalled() -> None:
    kept = {name for name, text in FILES.items() if "helm.sh/resource-policy" in text}
    data = {name for name in FILES if name.startswith(("templates/secret-", "templates/persistentvolume"))}
    assert kept == data | {"templates/daemonset-gpushare-mps.yaml"}


def test_all_pods_on_nodes_with_gpus_have_the_tolerations_of_the_values() -> None:
    texts = [text for name, text in FILES.items() if name.startswith("templates/daemonset-")]
    assert len(texts) == 4
    assert all("tolerations: {{ toJson .Values.tolerations }}" in text for text in texts)
