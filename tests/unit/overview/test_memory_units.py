import json

import pytest

from gpushare.cli.inspect import render as inspect
from gpushare.cli.top import arena_share
from gpushare.contract import ANN_CARDS
from gpushare.overview.memory_units import NodeUnit, common_unit, percent, unit_of
from tests.support.builders.api_objects import Json, literal, node, pod, share, views

GIB = node("gib", share(30, 2), address="10.0.0.1")
MIB = node("mib", share(15079), address="10.0.0.2")
CARDLESS = node("odd", share(7, 0), address="10.0.0.3")


def described(units: int, mib: int) -> Json:
    return node(
        "n", share(units), annotations={ANN_CARDS: json.dumps([{"index": 0, "units": units, "mib": mib}])}
    )


@pytest.mark.parametrize(
    ("a_node", "unit"),
    [
        (node("n", share(15)), NodeUnit.GIB),
        (node("n", share(800, 8)), NodeUnit.GIB),
        (node("n", share(101)), NodeUnit.MIB),
        (node("n", share(15, 0)), NodeUnit.UNKNOWN),
        (described(141, 143771), NodeUnit.GIB),
        (described(143771, 143771), NodeUnit.MIB),
        (described(64, 64), NodeUnit.MIB),
    ],
)
def test_the_unit_is_derived_from_the_mib_of_a_gpu_or_from_its_size(a_node: Json, unit: NodeUnit) -> None:
    [view] = views([a_node])
    assert unit_of(view) is unit


def test_nodes_have_a_unit_in_common_or_not() -> None:
    assert common_unit(views([GIB, CARDLESS])) is NodeUnit.GIB
    assert common_unit(views([CARDLESS])) is NodeUnit.UNKNOWN
    assert common_unit(views([GIB, MIB])) is None


def test_percentages_are_truncated_as_go_does_it() -> None:
    assert [percent(8, 15), percent(29, 100), percent(20, 15), percent(1, 0)] == [53, 28, 133, 0]


def test_inspect_shows_the_unit_of_each_node_in_a_mixed_cluster() -> None:
    pods = [pod("p", "gib", 9, index="0"), pod("q", "mib", 4096, index="0")]
    assert inspect.summary(views([GIB, MIB, CARDLESS], pods)) == literal(
        """
        NAME  IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  GPU Memory
        gib   10.0.0.1   9/15                   0/15                   9/30 (GiB)
        mib   10.0.0.2   4096/15079             0/0                    4096/15079 (MiB)
        odd   10.0.0.3   0/0                    0/0                    0/7 (?)
        ------------------------------------------------------
        Allocated/Total GPU Memory In Cluster:
        9/30 (GiB) (30%)········
        4096/15079 (MiB) (27%)··
        0/7 (?) (0%)············
        """
    )


def test_inspect_d_shows_the_unit_of_each_node_in_a_mixed_cluster() -> None:
    text = inspect.details(views([GIB, MIB]))
    assert "Allocated :  0 (GiB) (0%)" in text
    assert "Total :      15079 (MiB) " in text
    assert "Allocated/Total GPU Memory In Cluster:  0/30 (GiB) (0%)" in text
    assert "Allocated/Total GPU Memory In Cluster:  0/15079 (MiB) (0%)" in text


def test_arena_shows_the_unit_of_each_gpu_in_a_mixed_cluster() -> None:
    assert arena_share.summary(views([GIB, MIB])) == literal(
        """
        NAME  IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)··
        gib   10.0.0.1   0/15 (GiB)             0/15 (GiB)·············
        mib   10.0.0.2   0/15079 (MiB)          0/0 (MiB)··············
        --------------------------------------------------------
        Allocated/Total GPU Memory In GPUShare Node:
        0/30 (GiB) (0%)·····
        0/15079 (MiB) (0%)··
        """
    )
