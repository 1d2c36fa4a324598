"""Which GPU: binpack and spread, as the pod or the node's label requests."""

from pathlib import Path
from pkgutil import iter_modules

import pytest
import yaml

from gpushare.scheduling import placement as package
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.placement import POLICIES, choose, policy_name
from tests.support.builders.scheduling import T4, V16, cluster, demand, node, pod

ROOT = Path(__file__).parents[3]


def on_cards(placement: str | None, *free_units: int, size: int = T4) -> Ledger:
    """A node with GPUs that have these free units."""
    pods = [
        pod(f"on-{card}", size - units, at="n", card=card)
        for card, units in enumerate(free_units)
        if size > units
    ]
    return cluster(node("n", *[size] * len(free_units), placement=placement), *pods)


def taken(
    ledger: Ledger, mem: int, *, cards: int = 1, requested: str | None = None
) -> tuple[int, ...] | None:
    wanted = demand(mem, cards=cards)
    book = ledger.books["n"]
    return choose(book, [usage for usage in book.usages if usage.fits(wanted.per_card)], wanted, requested)


def test_every_policy_is_a_module_that_is_registered_under_its_name() -> None:
    modules = {module.name for module in iter_modules(package.__path__)} - {"policy"}
    assert {name: type(policy).__module__ for name, policy in POLICIES.items()} == {
        name: f"{package.__name__}.{name}" for name in modules
    }


def test_the_documentation_names_every_policy() -> None:
    text = (ROOT / "docs/concepts/request.md").read_text()
    assert [name for name in POLICIES if f"`{name}`" not in text] == []


def test_the_role_for_node_labels_accepts_every_policy() -> None:
    specs = yaml.safe_load((ROOT / "ansible/roles/node_labels/meta/argument_specs.yml").read_text())
    choices = specs["argument_specs"]["main"]["options"]["node_labels_placement"]["choices"]
    assert choices == ["", *POLICIES]


def test_the_example_of_the_ack_documentation() -> None:
    """Free 12207, 8138, 4069 and 16276: a pod of 8138 goes to GPU1."""
    assert taken(on_cards(None, 12_207, 8_138, 4_069, 16_276, size=V16), 8_138) == (1,)


def test_binpack_takes_the_fullest_gpu_that_fits() -> None:
    assert taken(on_cards("binpack", 10, 4, 6), 5) == (2,)


def test_spread_takes_the_emptiest_gpu() -> None:
    assert taken(on_cards("spread", 10, 4, 12), 4) == (2,)


@pytest.mark.parametrize("placement", ["binpack", "spread"])
def test_of_equal_gpus_the_lowest_index_is_taken(placement: str) -> None:
    assert taken(on_cards(placement, 2, 8, 8, 8), 4) == (1,)


def test_several_gpus_are_taken_in_the_order_of_the_policy_and_named_in_index_order() -> None:
    assert taken(on_cards("binpack", 12, 4, 8, 4), 8, cards=2) == (1, 3)
    assert taken(on_cards("binpack", 12, 6, 8, 2), 8, cards=2) == (1, 2)
    assert taken(on_cards("spread", 10, 4, 8, 12), 8, cards=2) == (0, 3)


def test_too_few_gpus_are_no_placement() -> None:
    assert taken(on_cards("binpack", 12, 3), 8, cards=2) is None
    assert taken(on_cards("binpack"), 0) is None


def test_the_policy_of_the_pod_comes_before_that_of_the_node() -> None:
    ledger = on_cards("spread", 4, 12)
    assert policy_name(ledger.books["n"]) == "spread"
    assert policy_name(ledger.books["n"], "binpack") == "binpack"
    assert taken(ledger, 4, requested="binpack") == (0,)


@pytest.mark.parametrize("label", [None, "", "Spread", "random"])
def test_without_a_known_policy_it_is_binpack(label: str | None) -> None:
    book = on_cards(label, 4, 12).books["n"]
    assert policy_name(book) == "binpack"
    assert policy_name(book, "random") == "binpack"


def test_an_unknown_policy_of_the_pod_leaves_that_of_the_node_in_force() -> None:
    assert policy_name(on_cards("spread", 4).books["n"], "random") == "spread"
