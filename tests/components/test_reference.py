from dataclasses import fields, is_dataclass
from typing import NamedTuple

from components import config, config_extender, config_monitoring, config_pods
from components.decode import spelled
from docs.configuration_page import SECTIONS, page


class Row(NamedTuple):
    """A row of a table; the example stands below the meaning."""

    key: str
    meaning: str
    example: str
    values: str
    default: str


def row(line: str) -> Row:
    key, text, values, default = (cell.strip() for cell in line.strip("|").split(" | "))
    meaning, _, example = text.partition("<br>Example: ")
    return Row(key, meaning, example, values, default)


def rows() -> list[Row]:
    lines = page().split("## Options that manifests decide")[0].splitlines()
    return [row(line.replace("\\|", "/")) for line in lines if line.startswith("| `")]


def test_the_reference_page_has_every_part_of_the_settings() -> None:
    modules = (config, config_extender, config_monitoring, config_pods)
    declared = [each for module in modules for each in vars(module).values()]
    parts = {each for each in declared if isinstance(each, type) and is_dataclass(each)}
    assert set(SECTIONS.values()) == parts - {config.ClusterSettings}


def test_every_key_is_there_with_its_values_and_a_meaning() -> None:
    keys = [spelled(each.name) for kind in SECTIONS.values() for each in fields(kind)]
    assert [each.key for each in rows()] == [f"`{key}`" for key in keys]
    assert all(each.values and each.meaning for each in rows())


def test_a_key_has_its_default_or_an_example_unless_it_has_keys_itself() -> None:
    without = {
        each.key
        for each in rows()
        if not (each.default.startswith("`") or each.example or "](#" in each.values)
    }
    # The meaning of the first has the command that prints it, that of the second what there is without a URL.
    assert without == {"`clusterUid`", "`runbooks`"}


def test_defaults_and_examples_are_those_of_the_classes_and_of_the_rendered_stacks() -> None:
    found = {each.key: (each.values, each.default, each.example) for each in reversed(rows())}
    assert found["`kubernetesVersion`"] == ("text", "required", '`"1.36"`')
    assert found["`replicas`"] == ("integer", "`1`", "`3`")
    assert found["`logLevel`"] == ("`debug`, `info`, `warn`, `error`", "`info`", "`debug`")
    assert found["`caBundle`"] == ("text", "", '`"-----BEGIN CERTIFICATE-----…`')
