"""Which GPU: binpack, spread and topology, as the pod or the node's label requests."""

from pathlib import Path
from pkgutil import iter_modules

import pytest
import yaml

from gpushare.model.cards import Card
from gpushare.model.objects import Node
from gpushare.model.options import ClusterPlacement
from gpushare.scheduling import placement as package
from gpushare.scheduling.ledger import Ledger
from gpushare.scheduling.placement import POLICIES, choose, policy_name
from tests.support.builders.scheduling import T4, V16, cluster, demand, node, pod, pod_request, score

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
    modules = {module.name for module in iter_modules(package.__path__) if not module.ispkg} - {"policy"}
    assert {name: type(policy).__module__ for name, policy in POLICIES.items()} == {
        name: f"{package.__name__}.{name}" for name in modules
    }


def test_the_documentation_says_when_to_use_every_policy() -> None:
    text = (ROOT / "docs/concepts/request.md").read_text()
    section = text.partition("## Placement policies\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    assert [row[0].strip("| `") for row in rows] == [*POLICIES, ClusterPlacement.REPLAY]
    assert {len(row) for row in rows} == {3}


def test_the_page_about_migration_names_every_policy() -> None:
    text = (ROOT / "docs/how-to/migrate.md").read_text()
    [row] = [line for line in text.splitlines() if "`ack.node.gpu.placement` |" in line]
    assert [name for name in POLICIES if f"`{name}`" not in row] == []


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


@pytest.mark.parametrize("placement", ["binpack", "spread", "topology"])
def test_of_equal_gpus_the_lowest_index_is_taken(placement: str) -> None:
    assert taken(on_cards(placement, 2, 8, 8, 8), 4) == (1,)


def test_several_gpus_are_taken_in_the_order_of_the_policy_and_named_in_index_order() -> None:
    assert taken(on_cards("binpack", 12, 4, 8, 4), 8, cards=2) == (1, 3)
    assert taken(on_cards("binpack", 12, 6, 8, 2), 8, cards=2) == (1, 2)
    assert taken(on_cards("spread", 10, 4, 8, 12), 8, cards=2) == (0, 3)


def linked(*links: str, free: tuple[int, ...], numa: tuple[int, ...] | None = None) -> Ledger:
    """A node of policy topology with these links, a text for each GPU, and free units."""
    cards = tuple(
        Card(index, T4, links=text, numa=numa[index] if numa else None) for index, text in enumerate(links)
    )
    pods = [pod(f"on-{index}", T4 - units, at="n", card=index) for index, units in enumerate(free)]
    return cluster(Node("n", cards, placement="topology"), *pods)


PAIRS = ("-vss", "v-ss", "ss-v", "ssv-")


def test_topology_takes_linked_gpus_although_others_are_fuller() -> None:
    ledger = linked(*PAIRS, free=(8, 14, 8, 14))
    assert taken(ledger, 8, cards=2, requested="binpack") == (0, 2)
    assert taken(ledger, 8, cards=2) == (0, 1)


def test_topology_takes_the_fuller_of_equal_sets() -> None:
    assert taken(linked(*PAIRS, free=(14, 14, 8, 14)), 8, cards=2) == (2, 3)


def test_topology_takes_what_fits() -> None:
    assert taken(linked(*PAIRS, free=(14, 3, 14, 3)), 8, cards=2) == (0, 2)
    assert taken(linked(*PAIRS, free=(14, 3, 3, 3)), 8, cards=2) is None


def test_topology_counts_numa_nodes_where_no_links_are_known() -> None:
    assert taken(linked("", "", "", free=(8, 14, 14), numa=(0, 1, 1)), 8, cards=2) == (1, 2)


def test_topology_leaves_the_numa_node_with_more_free_memory_for_several_gpus() -> None:
    unlinked = ("",) * 4
    assert taken(linked(*unlinked, free=(8, 14, 8, 9), numa=(0, 0, 1, 1)), 4) == (2,)
    assert taken(linked(*unlinked, free=(8, 14, 9, 9), numa=(0, 0, 1, 1)), 4) == (0,)


@pytest.mark.parametrize(
    ("links", "points"),
    [(("-v", "v-"), 10), (("-p", "p-"), 8), (("-s", "s-"), 3), (("", ""), 3)],
)
def test_topology_prefers_nodes_with_better_links(links: tuple[str, str], points: int) -> None:
    ledger = linked(*links, free=(4, 4))
    assert score(ledger, pod_request(demand(8, cards=2)), "n") == points


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
