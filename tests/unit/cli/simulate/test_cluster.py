"""``kubectl gpushare simulate`` on the nodes and pods of a FAKE of the API server."""

import csv
from pathlib import Path
from typing import Any

import pytest

from gpushare.cli.simulate.collect import live
from gpushare.cli.simulate.save import NODES, PODS
from gpushare.contract import ANN_CARDS
from gpushare.model.cards import Card, format_cards
from gpushare.overview.connection import ApiSource
from gpushare.simulation.workload import NodeSpec, Shape, Workload
from tests.support.builders.api_objects import Json, node, pod, share, whole
from tests.unit.cli.fakes import Api, call, documented, refused

pytestmark = pytest.mark.asyncio

FREE = {"cpu": "8", "memory": "32Gi"}
GIB = 1024


def gpu_node(name: str, units: int = 32, count: int = 2, model: str = "", **labels: str) -> Json:
    found = node(name, {**FREE, **share(units, count)}, labels=labels)
    if model:
        cards = tuple(Card(index, units // count, f"GPU-{name}-{index}", model) for index in range(count))
        found["metadata"]["annotations"][ANN_CARDS] = format_cards(cards)
    return found


def asking(found: Json, cpu: str = "1", memory: str = "2Gi", **spec: Any) -> Json:
    """The pod with requests of CPU and memory."""
    found["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu, "memory": memory}
    found["spec"] |= spec
    return found


def of_daemon_set(found: Json) -> Json:
    found["metadata"]["ownerReferences"] = [
        {"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    ]
    return found


async def workload_of(api: Api) -> tuple[Workload, list[str]]:
    notes: list[str] = []
    async with await ApiSource(api.kubeconfig).client() as client:
        return await live(client, notes), notes


async def test_nodes_and_pods_become_the_workload(api: Api) -> None:
    api.nodes = [gpu_node("a"), node("plain", FREE), node("whole", {**FREE, **whole(4)})]
    api.pods = [
        asking(pod("bound", "a", 4, index="0")),
        asking(pod("waits", None, 8, cards=2, phase="Pending")),
        asking(pod("beside", "a")),
        asking(pod("elsewhere", "plain")),
        asking(pod("done", "a", 4, phase="Succeeded")),
    ]
    found, notes = await workload_of(api)
    assert found.nodes == (NodeSpec("a", 8000, 32 * GIB, 2, "unknown"),)
    request = (1000, 2 * GIB)
    assert found.pods == (Shape(*request, 1, 250), Shape(*request, 2, 250), Shape(*request, 0, 0))
    assert notes == []


async def test_pods_that_belong_to_a_node_or_have_whole_gpus_take_its_cpu(api: Api) -> None:
    api.nodes = [gpu_node("a")]
    api.pods = [
        asking(pod("p", "a", 4)),
        of_daemon_set(asking(pod("agent", "a"), "500m")),
        asking(pod("whole", "a", gpus=1), "3"),
    ]
    found, _ = await workload_of(api)
    assert found.nodes == (NodeSpec("a", 4500, 28 * GIB, 2, "unknown"),)
    assert len(found.pods) == 1


async def test_gpus_of_two_sizes_are_parts_of_the_largest(api: Api) -> None:
    api.nodes = [gpu_node("large", 80, 1), gpu_node("small", 40, 2)]
    api.pods = [asking(pod("p", "small", 10))]
    found, _ = await workload_of(api)
    assert [(each.gpus, each.milli) for each in found.nodes] == [(1, 1000), (2, 250)]
    assert [each.milli for each in found.pods] == [125]


async def test_what_a_pod_may_use_decides_its_models(api: Api) -> None:
    api.nodes = [gpu_node("a", model="T4", pool="old"), gpu_node("b", model="H200", pool="new")]
    api.nodes[1]["spec"] = {"taints": [{"key": "new", "effect": "NoSchedule"}]}
    any_taint: Json = {"tolerations": [{"operator": "Exists"}]}
    api.pods = [
        asking(pod("tainted", None, 4)),
        asking(pod("tolerant", None, 4), **any_taint),
        asking(pod("new", None, 4), nodeSelector={"pool": "new"}, **any_taint),
        asking(pod("nowhere", None, 4), nodeSelector={"pool": "gold"}),
    ]
    found, notes = await workload_of(api)
    assert [set(each.models) for each in found.pods] == [{"T4"}, set(), {"H200"}]
    assert notes == ["pods left out because no simulated node could run them: 1, first default/nowhere"]


async def test_a_node_that_takes_no_pods_is_left_out(api: Api) -> None:
    api.nodes = [gpu_node("a"), gpu_node("b")]
    api.nodes[1]["spec"] = {"unschedulable": True}
    api.pods = [asking(pod("p", "a", 4))]
    found, notes = await workload_of(api)
    assert [each.name for each in found.nodes] == ["a"]
    assert notes == ["node b is left out, because it takes no pods: cordoned"]


async def test_the_policies_are_compared(api: Api) -> None:
    api.nodes = [gpu_node("a"), gpu_node("b")]
    api.pods = [asking(pod("p", "a", 8)), asking(pod("q", "b", 16))]
    found = await documented(api, "simulate", "--policy", "binpack,fgd", "--seeds", "1", "-o", "json")
    assert list(found["policies"]) == ["binpack", "fgd"]


async def test_the_workload_is_saved_as_files_that_simulate_reads(api: Api, tmp_path: Path) -> None:
    api.nodes = [gpu_node("a", 28), gpu_node("b", 14, 1)]
    api.pods = [asking(pod("p", "a", 7))]
    arguments = ("--policy", "binpack", "--seeds", "2", "-o", "json")
    found = await documented(api, "simulate", *arguments, "--save", str(tmp_path))
    nodes, pods = (tmp_path / name for name in (NODES, PODS))
    (row,) = csv.DictReader(pods.read_text().splitlines())
    assert row["gpu_milli"] == "500"
    assert found == await documented(api, "simulate", *arguments, "--nodes", str(nodes), "--pods", str(pods))


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ([], "no node of this cluster shares GPUs and takes pods"),
        ([node("plain", FREE)], "no node of this cluster shares GPUs and takes pods"),
        ([gpu_node("a")], "no pod of this cluster requests GPU units"),
    ],
)
async def test_nothing_to_simulate(api: Api, nodes: list[Json], told: str) -> None:
    api.nodes = nodes
    api.pods = [asking(pod("beside", "a"))]
    assert told in await refused(api, "simulate")


async def test_the_rights_of_one_namespace_are_not_enough(api: Api) -> None:
    api.nodes = [gpu_node("a")]
    api.allow_only("default")
    err = await refused(api, "simulate")
    assert 'cannot list resource "nodes"' in err
    assert "monitoring.viewers" in err


async def test_files_go_together(api: Api, tmp_path: Path) -> None:
    code, _, err = await call(api, "simulate", "--nodes", str(tmp_path / "nodes.csv"))
    assert code == 2
    assert "--nodes and --pods go together" in err
