"""Commands with ClusterRole edit in one namespace: the usage API answers, or a line says who can help."""

from typing import Any

import pytest

from gpushare.cli.lib.missing_right import VIEWERS
from gpushare.overview.usage_api import way_to_usage
from tests.support.builders.api_objects import Json, literal, node, pod, share
from tests.unit.cli.fakes import Api, call, documented, refused, shown

pytestmark = pytest.mark.asyncio

MIB = 2**20
GPU = {
    "index": 0,
    "uuid": "GPU-0",
    "allocatedBytes": 4308 * MIB,
    "limitBytes": 4308 * MIB,
    "usedBytes": 1200 * MIB,
    "countedBytes": 1000 * MIB,
    "peakBytes": 3000 * MIB,
    "refusals": 7,
    "largestRefusedBytes": 6144 * MIB,
    "neededBytes": 7144 * MIB,
    "gpuMemoryBytes": 15079 * MIB,
    "utilization": None,
}


def usage(name: str, **gpu: Any) -> Json:
    """A pod as the usage API describes it."""
    return {
        "metadata": {"name": name, "namespace": "default"},
        "workload": {"kind": "Pod", "name": name},
        "node": "n",
        "containers": [{"name": "main", "requestedUnits": 4, "gpus": [GPU | gpu]}],
    }


def fill(api: Api, *documents: Json) -> None:
    api.nodes = [node("n", share(14))]
    api.pods = [pod("a", "n", 4), pod("b", "n", 4)]
    api.allow_only("default")
    api.usage = {"default/gpupods": {"items": documents, "notes": []}}


async def test_usage_of_own_pods(api: Api) -> None:
    fill(api, usage("a", utilization=0.25), usage("b", usedBytes=None))
    assert await shown(api, "top", "pod") == literal(
        """
        NAMESPACE  POD  CONTAINER  NODE  GPU  USED      ALLOCATED  UTILIZATION
        default    a    main       n     0    1200 MiB  4308 MiB   25%
        default    b    main       n     0    -         4308 MiB   -
        """
    )
    assert len((await shown(api, "top", "pod", "b")).splitlines()) == 2


async def test_limits_of_own_pods_and_why_there_are_none(api: Api) -> None:
    fill(api, usage("a"), usage("b", limitBytes=None, noLimit="node n shares without isolation"))
    code, out, err = await call(api, "limits")
    assert (code, err) == (0, "pod default/b has no limits: node n shares without isolation\n")
    row = out.splitlines()[1].split()
    assert row == [
        "default",
        "a",
        "main",
        "n",
        "0",
        "4308",
        "MiB",
        "1000",
        "MiB",
        "3000",
        "MiB",
        "7",
        "6144",
        "MiB",
    ]


async def test_requests_of_own_pods(api: Api) -> None:
    fill(api, usage("a"), usage("b"))
    found = await documented(api, "recommend", "-o", "json")
    for each in found["items"]:
        assert (each["peakBytes"], each["refusals"], each["unit"]) == (3000 * MIB, 7, "GiB")
        # What was refused needs 7144 MiB, which with the margin is 8 GiB.
        assert (each["suggestedUnits"], each["verdict"]) == (8, "raise")


async def test_notes_of_the_usage_api_are_warnings(api: Api) -> None:
    fill(api, usage("a"))
    assert api.usage
    api.usage["default/gpupods"]["notes"] = ["exporter e-n2 does not answer"]
    assert (await call(api, "top", "pod"))[2] == "warning: exporter e-n2 does not answer\n"


@pytest.mark.parametrize("command", [["top", "pod"], ["limits"], ["recommend"]])
async def test_without_the_usage_api_one_line_says_who_can_help(api: Api, command: list[str]) -> None:
    fill(api)
    api.usage = None
    err = await refused(api, *command)
    assert err.splitlines()[1:] == [way_to_usage("default")]


@pytest.mark.parametrize(
    "command",
    [
        ["inspect"],
        ["top", "node"],
        ["top", "pod", "-A"],
        ["top", "pod", "--metric", "gpushare_container_memory_used_bytes"],
    ],
)
async def test_what_needs_the_whole_cluster_says_who_can_give_it(api: Api, command: list[str]) -> None:
    fill(api)
    err = await refused(api, *command)
    assert "monitoring.viewers" in err.splitlines()[-1]


async def test_the_missing_right_to_the_proxy_of_the_exporters_is_no_silent_exporter(api: Api) -> None:
    fill(api)
    api.exporters = {"n": ""}
    api.forbidden = {"/api/v1/namespaces/kube-system/pods/e-n:12348/proxy/metrics"}
    err = await refused(api, "top", "pod", "-A")
    assert "is forbidden" in err
    assert err.splitlines()[1:] == [VIEWERS]
