from dataclasses import fields, is_dataclass

from components import config
from components.decode import spelled
from docs import generate


def test_the_reference_page_has_every_part_of_the_settings() -> None:
    parts = {each for each in vars(config).values() if is_dataclass(each)}
    assert set(generate.SECTIONS.values()) == parts - {config.ClusterSettings}


def test_every_key_is_there_with_its_default_and_a_meaning() -> None:
    rows = [line for line in generate.configuration().splitlines() if line.startswith("| `")]
    keys = [spelled(each.name) for kind in generate.SECTIONS.values() for each in fields(kind)]
    assert [row.split("`")[1] for row in rows] == keys
    assert all(row.split(" | ", 2)[2].strip(" |") for row in rows)
    assert "| `kubernetesVersion` | required |" in generate.configuration()
    assert "| `replicas` | `1` |" in generate.configuration()
