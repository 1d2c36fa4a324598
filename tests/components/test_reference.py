from dataclasses import fields, is_dataclass

from components import config, config_extender, config_monitoring, config_pods
from components.decode import spelled
from docs.configuration_page import SECTIONS, page


def rows() -> list[list[str]]:
    """The cells of each row: key, values, default, example, meaning."""
    lines = [line.replace("\\|", "/") for line in page().splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_the_reference_page_has_every_part_of_the_settings() -> None:
    modules = (config, config_extender, config_monitoring, config_pods)
    declared = [each for module in modules for each in vars(module).values()]
    parts = {each for each in declared if isinstance(each, type) and is_dataclass(each)}
    assert set(SECTIONS.values()) == parts - {config.ClusterSettings}


def test_every_key_is_there_with_its_values_and_a_meaning() -> None:
    keys = [spelled(each.name) for kind in SECTIONS.values() for each in fields(kind)]
    assert [row[0] for row in rows()] == [f"`{key}`" for key in keys]
    assert all(values and meaning for _, values, _, _, meaning in rows())


def test_a_key_has_its_default_or_an_example_unless_it_has_keys_itself() -> None:
    without = {
        key
        for key, values, default, example, _ in rows()
        if not (default.startswith("`") or example or "](#" in values)
    }
    # Its meaning has the command that prints it.
    assert without == {"`clusterUid`"}


def test_defaults_and_examples_are_those_of_the_classes_and_of_the_rendered_stacks() -> None:
    found = {row[0]: row[1:4] for row in reversed(rows())}
    assert found["`kubernetesVersion`"] == ["text", "required", '`"1.36"`']
    assert found["`replicas`"] == ["integer", "`1`", "`3`"]
    assert found["`logLevel`"] == ["`debug`, `info`, `warn`, `error`", "`info`", "`debug`"]
    assert found["`caBundle`"] == ["text", "", '`"-----BEGIN CERTIFICATE-----…`']
