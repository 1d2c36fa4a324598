import json
import re

from gpushare.cli.inspect import render as inspect
from gpushare.cli.lib.node_screen import text_of
from gpushare.cli.top import arena, arena_share
from gpushare.contract import ANN_CARDS, LABEL_MODE, LABEL_PLACEMENT
from gpushare.overview.node_document import nodes_document
from tests.support.builders.api_objects import Json, literal, node, pod, share, views, whole

CARDS = [
    {"index": 0, "units": 14, "mib": 15079, "uuid": "GPU-a", "model": "Tesla T4"},
    {"index": 1, "units": 11, "mib": 12196, "uuid": "GPU-b", "model": "TITAN\x1b Xp", "healthy": False},
]
DESCRIBED = node(
    "a",
    share(25, 2),
    annotations={ANN_CARDS: json.dumps(CARDS)},
    labels={LABEL_MODE: "core_mem", LABEL_PLACEMENT: "spread"},
)
PODS = [
    pod("p", "a", 6, cards=2, allocation='{"0":{"0":3,"1":3}}'),
    pod("q", "a", 3, namespace="ml", index="9"),
]


def entry(name: str, used: int, namespace: str = "default") -> Json:
    return {"namespace": namespace, "name": name, "uid": f"uid-{name}", "used": used}


def test_a_described_node_as_a_document() -> None:
    assert nodes_document(views([DESCRIBED], PODS)) == {
        "apiVersion": "gpushare.io/v1",
        "kind": "NodeShareList",
        "items": [
            {
                "name": "a",
                "address": "10.0.0.1",
                "roles": [],
                "ready": True,
                "shareable": True,
                "closed": None,
                "mode": "core_mem",
                "placement": "spread",
                "unit": "GiB",
                "total": 25,
                "used": 9,
                "cards": [
                    {
                        "index": 0,
                        "uuid": "GPU-a",
                        "model": "Tesla T4",
                        "total": 14,
                        "used": 3,
                        "healthy": True,
                        "pods": [entry("p", 3)],
                    },
                    {
                        "index": 1,
                        "uuid": "GPU-b",
                        "model": "TITAN\x1b Xp",
                        "total": 11,
                        "used": 3,
                        "healthy": False,
                        "pods": [entry("p", 3)],
                    },
                ],
                "pending": {"used": 3, "pods": [entry("q", 3, "ml")]},
                "gpus": {"total": 2, "allocated": 2, "unhealthy": 1},
                "wholeCardPods": [],
            }
        ],
    }


def test_values_missing_on_a_node_of_the_aliyun_plugin_are_null() -> None:
    [item] = nodes_document(views([node("n", share(15))]))["items"]
    [card] = item["cards"]
    assert (card["uuid"], card["model"], card["healthy"]) == (None, None, None)


def test_a_node_that_does_not_share_has_the_same_keys() -> None:
    shared, other = nodes_document(
        views([node("a", share(15)), node("b", whole(2))], [pod("p", "b", gpus=1)])
    )["items"]
    assert other.keys() == shared.keys()
    assert (other["unit"], other["mode"], other["total"], other["cards"]) == (None, None, 0, [])
    assert (other["gpus"]["allocated"], other["wholeCardPods"]) == (1, [entry("p", 1)])


def test_names() -> None:
    assert text_of(views([node("b", {}), node("a", share(1))]), inspect.summary, "name") == "node/a\nnode/b\n"


def test_json_and_yaml_have_the_same_content() -> None:
    import yaml  # noqa: PLC0415 - only here

    nodes = views([DESCRIBED], PODS)
    as_json = text_of(nodes, inspect.summary, "json")
    assert (
        yaml.safe_load(text_of(nodes, inspect.summary, "yaml"))
        == json.loads(as_json)
        == nodes_document(nodes)
    )


def test_wide_has_one_line_per_gpu() -> None:
    nodes = views([DESCRIBED, node("b", share(30, 2))], PODS)
    assert inspect.summary(nodes, wide=True) == literal(
        """
        NAME  IPADDRESS  GPU      MODEL      HEALTHY    ALLOCATED  FREE    TOTAL   MODE      PLACEMENT
        a     10.0.0.1   0        Tesla T4   yes        3 GiB      11 GiB  14 GiB  core_mem  spread
        a     10.0.0.1   1        TITAN? Xp  no         3 GiB      8 GiB   11 GiB  core_mem  spread
        a     10.0.0.1   pending  -          -          3 GiB      -       -       core_mem  spread
        b     10.0.0.1   0        <unknown>  <unknown>  0 GiB      15 GiB  15 GiB  share     binpack
        b     10.0.0.1   1        <unknown>  <unknown>  0 GiB      15 GiB  15 GiB  share     binpack
        """
    )


def test_wide_details_show_it_above_the_pods() -> None:
    text = inspect.details(views([DESCRIBED]), wide=True)
    assert "PLACEMENT:  spread\nHEALTHY:    1/2\n" in text


def test_wide_forms_of_arenas_views() -> None:
    nodes = views([DESCRIBED, node("b", whole(2))])
    assert "No              <none>    <none>" in arena.summary(nodes, wide=True)
    assert re.search(r"ROLE: +<none>\nMODE: +core_mem\n", arena.details(nodes, wide=True))
    assert arena_share.summary(nodes, wide=True).splitlines()[1] == literal(
        "a     10.0.0.1   0/14                   0/11                   "
        "core_mem  spread     1/2      1 x TITAN? Xp, 1 x Tesla T4··"
    )
