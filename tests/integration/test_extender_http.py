"""The scheduler's port over HTTP: exact answers, bad input, and faults of the API server.

One real control plane for the module, behind a proxy that injects faults.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from gpushare.adapters.extender_peers import FORWARDED_HEADER
from gpushare.contract import EXTENDER_PREFIX, LABEL_MODE
from testbed import Bed, SimGpu, SimNode, gpu_pod, until
from testbed.control_plane.api import Object
from testbed.daemons.extender import ACCOUNT, ExtenderSpec, grant, start_extender
from tests.support.fakes.fault_proxy import Fault, FaultProxy, fault_proxy, on_bind, status_answer
from tests.support.history import cards_of
from tests.support.metrics import total

pytestmark = pytest.mark.asyncio(loop_scope="session")

FLAGS = (
    "--bind-timeout=4",
    "--api-request-timeout=10",
    "--lease-duration=30",
    "--renew-deadline=20",
    "--retry-period=1",
)


@dataclass
class Extender:
    """One extender behind a proxy, and the requests of a scheduler."""

    bed: Bed
    proxy: FaultProxy
    spec: ExtenderSpec
    session: aiohttp.ClientSession

    async def post(self, verb: str, body: Any) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.session.post(f"{self.spec.url}/{verb}", data=data) as reply:
            return reply.status, json.loads(await reply.read())

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(
            f"http://127.0.0.1:{self.spec.port}{path}", allow_redirects=False
        ) as reply:
            return reply.status, await reply.text()

    async def filter(self, pod: Object, *nodes: str) -> Any:
        status, answer = await self.post("filter", {"Pod": pod, "NodeNames": list(nodes)})
        assert status == 200
        return answer

    async def bind(self, pod: Object, node: str, **changes: str) -> str:
        meta = pod["metadata"]
        args = {
            "PodName": meta["name"],
            "PodNamespace": meta["namespace"],
            "PodUID": meta["uid"],
            "Node": node,
        } | changes
        status, answer = await self.post("bind", args)
        assert status == 200
        return str(answer["Error"])

    async def create(self, units: int | str, **kwargs: Any) -> Object:
        """Create a pending pod."""
        pod = gpu_pod(f"p-{uuid4().hex[:8]}", None, resources={"aliyun.com/gpu-mem": units}, **kwargs)
        return (await self.bed.create_pods([pod]))[0]

    async def node(self, *units: int, **kwargs: Any) -> str:
        """Create a node, so that tests do not share GPUs; return its name after the extender has seen it."""
        name = f"node-{uuid4().hex[:8]}"
        cards = [SimGpu(units=each) for each in units]
        await self.bed.add_nodes([SimNode(name, cards, **kwargs)])
        await self.until_inspected(name, bool)
        return name

    async def inspect(self, name: str) -> Any:
        _, text = await self.get(f"{EXTENDER_PREFIX}/inspect/{name}")
        nodes = json.loads(text)["nodes"]
        return nodes[0] if nodes else None

    async def until_inspected(self, name: str, condition: Callable[[Any], bool]) -> None:
        async def met() -> bool:
            node = await self.inspect(name)
            return node is not None and condition(node)

        await until(met, f"the extender's view of {name}", 30)

    async def used(self, node: str) -> list[int]:
        return [dev["usedGPU"] for dev in (await self.inspect(node))["devs"]]

    async def stored(self, pod: Object) -> Object:
        meta = pod["metadata"]
        return await self.bed.api.get(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}")

    async def alive(self) -> None:
        status, text = await self.get("/version")
        assert (status, text) == (200, "0.1.0")
        assert self.bed.process(self.spec.name).running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def extender(clean_bed: Bed) -> AsyncIterator[Extender]:
    bed = clean_bed
    await grant(bed)
    async with fault_proxy(bed.api_url, bed.credentials.context(ACCOUNT)) as proxy:
        spec = ExtenderSpec(flags=FLAGS)
        process = await start_extender(bed, spec, proxy.kubeconfig(bed.folder))
        async with aiohttp.ClientSession() as session:
            await until(lambda: _leads(spec), "the extender to lead")
            yield Extender(bed, proxy, spec, session)
        await process.stop()


async def _leads(spec: ExtenderSpec) -> bool:
    return await total(spec.ops_url, "gpushare_extender_leader") == 1


# --- the wire -----------------------------------------------------------------------------------


async def test_filter_returns_nodes_with_enough_free_units_in_the_order_of_the_request(
    extender: Extender,
) -> None:
    small, large = await extender.node(4), await extender.node(14)
    answer = await extender.filter(gpu_pod("x", 4), large, small)
    assert answer == {
        "Nodes": None,
        "NodeNames": [large, small],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": None,
        "Error": "",
    }


async def test_a_pod_larger_than_any_gpu_is_unresolvable(extender: Extender) -> None:
    node = await extender.node(14, 14)
    answer = await extender.filter(gpu_pod("x", 15), node)
    assert answer["NodeNames"] == []
    assert answer["FailedAndUnresolvableNodes"] == {
        node: "Insufficient GPU Memory in one device: asked 15, no GPU is that large"
    }


async def test_requests_of_old_schedulers_with_lower_case_keys_are_parsed(extender: Extender) -> None:
    node = await extender.node(14)
    _, answer = await extender.post("filter", {"pod": gpu_pod("x", 4), "nodenames": [node], "nodes": None})
    assert answer["NodeNames"] == [node]


async def test_whole_nodes_are_passed_back_to_a_scheduler_without_a_cache(extender: Extender) -> None:
    node = await extender.node(14)
    whole = {"metadata": {"name": node, "labels": {"kept": "as-is"}}, "status": {}}
    _, answer = await extender.post("filter", {"Pod": gpu_pod("x", 4), "Nodes": {"items": [whole]}})
    assert answer["Nodes"]["items"] == [whole]


async def test_a_template_beside_a_real_node_is_evaluated_from_its_object(extender: Extender) -> None:
    """As Cluster Autoscaler asks: the API has no such node."""
    full = await extender.node(14)
    units = {"aliyun.com/gpu-mem": "28", "aliyun.com/gpu-count": "2"}
    template = {"metadata": {"name": "template-0"}, "status": {"capacity": units, "allocatable": units}}
    real = {"metadata": {"name": full}, "status": {"capacity": {}}}
    pod = await extender.create(12)
    assert await extender.bind(pod, full) == ""
    objects = {"items": [real, template]}
    _, answer = await extender.post("filter", {"Pod": gpu_pod("x", 14), "Nodes": objects, "NodeNames": None})
    assert (answer["Nodes"]["items"], list(answer["FailedNodes"])) == ([template], [full])
    _, answer = await extender.post("filter", {"Pod": gpu_pod("x", 15), "Nodes": objects, "NodeNames": None})
    assert list(answer["FailedAndUnresolvableNodes"]) == [full, "template-0"]


async def test_prioritize_scores_fuller_gpus_higher_and_omits_the_lowest_score(extender: Extender) -> None:
    half, empty = await extender.node(8), await extender.node(80)
    _, scores = await extender.post("prioritize", {"Pod": gpu_pod("x", 4), "NodeNames": [half, empty]})
    assert [s["Host"] for s in scores] == [half]
    assert 0 < scores[0]["Score"] <= 10


async def test_prioritize_of_equal_nodes_is_empty(extender: Extender) -> None:
    nodes = [await extender.node(14), await extender.node(14)]
    _, scores = await extender.post("prioritize", {"Pod": gpu_pod("x", 4), "NodeNames": nodes})
    assert scores == []


async def test_inspect_has_the_layout_of_the_aliyun_extender(extender: Extender) -> None:
    node = await extender.node(14)
    pod = await extender.create(4)
    assert await extender.bind(pod, node) == ""
    assert await extender.inspect(node) == {
        "name": node,
        "totalGPU": 14,
        "usedGPU": 4,
        "devs": [
            {
                "id": 0,
                "totalGPU": 14,
                "usedGPU": 4,
                "pods": [{"name": pod["metadata"]["name"], "namespace": "default", "usedGPU": 4}],
            }
        ],
    }


async def test_inspect_of_an_unknown_node_returns_an_error(extender: Extender) -> None:
    _, text = await extender.get(f"{EXTENDER_PREFIX}/inspect/no-such-node")
    assert json.loads(text) == {"nodes": [], "error": 'node "no-such-node" not found'}


async def test_routes_respond_as_in_the_aliyun_extender(extender: Extender) -> None:
    assert (await extender.get("/version"))[0] == 200
    assert (await extender.get(f"{EXTENDER_PREFIX}/inspect/"))[0] == 301
    assert (await extender.get("/no-such-path"))[0] == 404
    async with extender.session.get(f"{extender.spec.url}/filter") as reply:
        assert (reply.status, reply.headers["Allow"]) == (405, "POST")


async def test_answers_carry_a_content_length_so_that_connections_are_kept(extender: Extender) -> None:
    async with extender.session.post(f"{extender.spec.url}/filter", data=b"{}") as reply:
        assert reply.headers["Content-Length"] == str(len(await reply.read()))
        assert reply.headers["Content-Type"] == "application/json"


async def test_health_and_metrics_are_on_another_port(extender: Extender) -> None:
    assert (await extender.get("/metrics"))[0] == 404
    async with extender.session.get(f"{extender.spec.ops_url}/healthz") as reply:
        assert await reply.text() == "ok"
    async with extender.session.get(f"{extender.spec.ops_url}/metrics") as reply:
        text = await reply.text()
    for name in (
        "gpushare_card_free_units",
        "gpushare_extender_binds_total",
        "gpushare_cards_overcommitted 0.0",
    ):
        assert name in text


# --- bad input ----------------------------------------------------------------------------------

EMPTY_FILTER = {"Nodes": None, "NodeNames": None, "FailedNodes": None, "FailedAndUnresolvableNodes": None}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", "EOF"),
        (b"not json", "request body is not JSON"),
        (b"[1, 2]", "request body cannot be read"),
        (b'{"Pod": 7, "NodeNames": ["n"]}', "request body cannot be read"),
        (b'{"Pod": null, "NodeNames": ["n"]}', "arg or pod is nil"),
        (b'{"Pod": {}, "NodeNames": null, "Nodes": null}', "cannot get node names"),
        (b"\xff\xfe", "request body is not JSON"),
        (b'{"Pod":{"deep":' + b"[" * 100_000, "request body is not JSON"),
    ],
    ids=["empty", "text", "list", "pod-number", "pod-null", "no-nodes", "no-utf8", "deep"],
)
async def test_an_unreadable_filter_request_returns_its_error(
    extender: Extender, body: bytes, error: str
) -> None:
    status, answer = await extender.post("filter", body)
    assert status == 200
    assert error in answer.pop("Error")
    assert answer == EMPTY_FILTER
    await extender.alive()


async def test_a_body_of_100_mb_is_refused_without_memory_use(extender: Extender) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 2**20

    try:
        async with extender.session.post(f"{extender.spec.url}/filter", data=chunks()) as reply:
            assert "larger than 32 MiB" in (await reply.json())["Error"]
    except aiohttp.ClientConnectionError:
        pass  # the connection may be closed before all of it is sent
    await extender.alive()


@pytest.mark.parametrize(
    ("amount", "says"),
    [
        ("-1", "gpu-mem=-1 is negative"),
        ("four", "quantity 'four' is not a Kubernetes quantity"),
        ("10G", "asked 10000000000"),
        ("4Gi", "asked 4294967296"),
    ],
)
async def test_the_error_for_an_invalid_quantity_names_it(extender: Extender, amount: str, says: str) -> None:
    node = await extender.node(14)
    answer = await extender.filter(gpu_pod("x", None, resources={"aliyun.com/gpu-mem": amount}), node)
    assert says in answer["FailedAndUnresolvableNodes"][node]
    await extender.alive()


async def test_one_and_a_half_units_are_two_as_in_go(extender: Extender) -> None:
    node = await extender.node(1)
    answer = await extender.filter(gpu_pod("x", None, resources={"aliyun.com/gpu-mem": "1.5"}), node)
    assert "asked 2" in answer["FailedAndUnresolvableNodes"][node]


async def test_an_unknown_node_is_a_failed_node(extender: Extender) -> None:
    answer = await extender.filter(gpu_pod("x", 4), "ghost")
    assert answer["FailedNodes"] == {"ghost": "node not found"}
    pod = await extender.create(4)
    assert await extender.bind(pod, "ghost") == 'node "ghost" not found'


@pytest.mark.parametrize(
    ("allocatable", "says"),
    [
        ({"aliyun.com/gpu-mem": "0"}, "is not for GPU share"),
        ({"aliyun.com/gpu-count": "0"}, "no GPU size"),
    ],
)
async def test_nodes_without_a_gpu_size_are_unschedulable_with_a_reason(
    extender: Extender, allocatable: dict[str, str], says: str
) -> None:
    name = f"node-{uuid4().hex[:8]}"
    await extender.bed.add_nodes([SimNode(name, [SimGpu()], annotate_cards=False)])
    await extender.bed.api.request(
        "PATCH",
        f"/api/v1/nodes/{name}/status",
        {"status": {"capacity": allocatable, "allocatable": allocatable}},
        content_type="application/merge-patch+json",
    )

    async def refused() -> bool:
        answer = await extender.filter(gpu_pod("x", 4), name)
        return name in (answer["FailedAndUnresolvableNodes"] or {})

    await until(refused, f"{name} to be unschedulable", 15)
    assert says in await extender.bind(await extender.create(4), name)


async def test_an_unreadable_gpu_list_makes_the_node_unschedulable_with_a_reason(extender: Extender) -> None:
    name = f"node-{uuid4().hex[:8]}"
    await extender.bed.add_nodes(
        [SimNode(name, [SimGpu()], annotate_cards=False, annotations={"gpushare.io/cards": "[{]"})]
    )

    async def refused() -> bool:
        answer = await extender.filter(gpu_pod("x", 4), name)
        return name in (answer["FailedAndUnresolvableNodes"] or {})

    await until(refused, "the node to be unschedulable", 15)
    assert "gpushare.io/cards" in await extender.bind(await extender.create(4), name)


async def test_the_error_for_a_bind_without_its_fields_names_them(extender: Extender) -> None:
    _, answer = await extender.post("bind", {"PodName": "x"})
    assert answer["Error"] == "bind request without PodNamespace, PodUID, Node"


async def test_bind_with_a_wrong_uid_fails_with_the_text_of_the_aliyun_extender(extender: Extender) -> None:
    node, pod = await extender.node(14), await extender.create(4)
    error = await extender.bind(pod, node, PodUID="another")
    uid = pod["metadata"]["uid"]
    assert error.endswith(f"uid is {uid}, and it's not equal with expected another")


async def test_bind_of_a_missing_pod_is_an_error(extender: Extender) -> None:
    node, pod = await extender.node(14), await extender.create(4)
    assert "not found" in await extender.bind(pod, node, PodName="gone", PodUID="gone")


@pytest.mark.parametrize("headers", [{}, {FORWARDED_HEADER: "1"}], ids=["asked", "forwarded"])
async def test_a_pod_without_gpu_resources_is_never_bound(
    extender: Extender, headers: dict[str, str]
) -> None:
    """Every tenant can connect to the port and could bind pods despite taints, affinity and priorities."""
    node, before = await extender.node(14), len(_binds(extender))
    pod = (await extender.bed.create_pods([gpu_pod(f"plain-{uuid4().hex[:8]}")]))[0]
    meta = pod["metadata"]
    args = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"], "Node": node}
    for _ in range(2):
        async with extender.session.post(f"{extender.spec.url}/bind", json=args, headers=headers) as reply:
            assert reply.status == 200
            error = (await reply.json())["Error"]
        assert error.startswith(f"pod default/{meta['name']} asks for no aliyun.com/gpu-mem")
    assert len(_binds(extender)) == before
    assert (await extender.stored(pod))["spec"].get("nodeName") is None
    assert (await extender.inspect(node))["devs"][0]["pods"] == []


async def test_pods_that_ask_for_zero_are_bound_and_do_not_fill_a_gpu(extender: Extender) -> None:
    node = await extender.node(14, labels={LABEL_MODE: "cgpu"})
    for _ in range(3):
        pod = await extender.create(0)
        assert (await extender.filter(pod, node))["NodeNames"] == [node]
        assert await extender.bind(pod, node) == ""
    assert await extender.bind(await extender.create(14), node) == ""


# --- bind decides once --------------------------------------------------------------------------


async def test_a_repeated_bind_returns_the_same_answer_and_posts_once(extender: Extender) -> None:
    node, pod = await extender.node(14, 14), await extender.create(4)
    before = len(_binds(extender))
    assert [await extender.bind(pod, node) for _ in range(3)] == ["", "", ""]
    assert len(_binds(extender)) == before + 1
    assert await extender.used(node) == [4, 0]


async def test_concurrent_binds_of_a_pod_share_one_post(extender: Extender) -> None:
    node, pod = await extender.node(14), await extender.create(4)
    before = len(_binds(extender))
    assert await asyncio.gather(*(extender.bind(pod, node) for _ in range(8))) == [""] * 8
    assert len(_binds(extender)) == before + 1


async def test_a_pod_bound_elsewhere_is_not_bound_again(extender: Extender) -> None:
    here, there, pod = await extender.node(14), await extender.node(14), await extender.create(4)
    assert await extender.bind(pod, here) == ""
    assert f"is already bound to node {here}" in await extender.bind(pod, there)
    assert await extender.used(there) == [0]


async def test_the_rejection_of_a_full_gpu_has_the_numbers(extender: Extender) -> None:
    node, first, second = await extender.node(14), await extender.create(12), await extender.create(4)
    assert await extender.bind(first, node) == ""
    assert "asked 4, at most 2 of 14 free on GPU 0" in await extender.bind(second, node)
    assert (await extender.stored(second))["spec"].get("nodeName") is None


async def test_a_node_that_vanishes_between_filter_and_bind_is_named(extender: Extender) -> None:
    node, pod = await extender.node(14), await extender.create(4)
    assert (await extender.filter(pod, node))["NodeNames"] == [node]
    await extender.bed.delete_node(node)

    async def gone() -> bool:
        return (await extender.inspect(node)) is None

    await until(gone, "the node to be gone", 15)
    assert await extender.bind(pod, node) == f'node "{node}" not found'


async def test_annotations_forged_before_the_bind_have_no_effect(extender: Extender) -> None:
    node = await extender.node(14, 14)
    forged = {
        "ALIYUN_COM_GPU_MEM_IDX": "1",
        "ALIYUN_COM_GPU_MEM_POD": "0",
        "ALIYUN_COM_GPU_MEM_ASSIGNED": "true",
        "scheduler.framework.gpushare.allocation": '{"0":{"1":0}}',
    }
    pod = await extender.create(4, annotations=forged)
    assert await extender.used(node) == [0, 0]
    assert await extender.bind(pod, node) == ""
    assert await extender.used(node) == [4, 0]
    assert cards_of(await extender.stored(pod)) == {0: 4}


async def test_annotations_edited_after_the_bind_free_no_units(extender: Extender) -> None:
    node, pod = await extender.node(14, 14), await extender.create(10)
    assert await extender.bind(pod, node) == ""
    path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}"
    for edit in (
        {"ALIYUN_COM_GPU_MEM_IDX": "1"},
        {"ALIYUN_COM_GPU_MEM_POD": "0"},
        dict.fromkeys(forgeable()),
    ):
        await extender.bed.api.patch(path, {"metadata": {"annotations": edit}})
    later = await extender.create(14)
    # The watch returns this pod after the edits.
    assert await extender.bind(later, node) == ""
    assert await extender.used(node) == [10, 14]


def forgeable() -> list[str]:
    return ["ALIYUN_COM_GPU_MEM_IDX", "ALIYUN_COM_GPU_MEM_POD", "scheduler.framework.gpushare.allocation"]


async def test_a_pod_placed_by_node_name_counts_on_every_gpu(extender: Extender) -> None:
    node = await extender.node(14, 14)
    await extender.create(10, nodeName=node)
    await extender.until_inspected(node, lambda n: [d["usedGPU"] for d in n["devs"]] == [10, 10])
    assert "at most 4 of 14 free" in await extender.bind(await extender.create(5), node)


# --- faults of the API server -------------------------------------------------------------------


def _binds(extender: Extender) -> list[str]:
    return [line for line in extender.proxy.seen if line.endswith("/binding")]


def _refuse(status: int, reason: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(_: web.Request) -> web.StreamResponse:
        return status_answer(status, reason, f"spoiled: {reason}")

    return answer


@pytest.mark.parametrize(
    ("status", "reason"), [(429, "TooManyRequests"), (403, "Forbidden"), (422, "Invalid")]
)
async def test_a_definite_rejection_by_the_api_server_releases_the_units_and_is_returned(
    extender: Extender, status: int, reason: str
) -> None:
    node, pod = await extender.node(14), await extender.create(4)
    extender.proxy.faults[:] = [on_bind(_refuse(status, reason))]
    assert f"spoiled: {reason}" in await extender.bind(pod, node)
    assert await extender.used(node) == [0]
    assert await extender.bind(pod, node) == ""


async def test_a_500_keeps_the_units_until_a_quorum_read_shows_the_pod_unbound(extender: Extender) -> None:
    node, pod = await extender.node(14), await extender.create(4)
    extender.proxy.faults[:] = [on_bind(_refuse(500, "InternalError"))]
    assert "outcome unknown, its units stay reserved" in await extender.bind(pod, node)
    assert await extender.used(node) == [4]
    await extender.until_inspected(node, lambda n: n["usedGPU"] == 0)  # after --api-request-timeout


async def test_a_timeout_whose_post_took_effect_ends_bound(extender: Extender) -> None:
    node, pod = await extender.node(14), await extender.create(4)

    async def late(request: web.Request) -> None:
        extender.proxy.later(request, 5)
        await asyncio.sleep(20)

    extender.proxy.faults[:] = [on_bind(late)]
    assert "outcome unknown" in await extender.bind(pod, node)
    assert (await extender.filter(pod, node, "other"))["NodeNames"] == [node]

    async def bound() -> bool:
        return bool((await extender.stored(pod))["spec"].get("nodeName") == node)

    await until(bound, "the late POST to take effect", 15)
    assert await extender.bind(pod, node) == ""
    assert await extender.used(node) == [4]


async def test_an_unclear_bind_blocks_another_node_until_it_is_settled(extender: Extender) -> None:
    first, second, pod = await extender.node(14), await extender.node(14), await extender.create(4)
    extender.proxy.faults[:] = [on_bind(_refuse(504, "Timeout"))]
    assert "outcome unknown" in await extender.bind(pod, first)
    assert "has no clear outcome" in await extender.bind(pod, second)
    assert await extender.used(second) == [0]

    async def elsewhere() -> bool:
        return await extender.bind(pod, second) == ""

    await until(elsewhere, "the old bind to be settled", 20, 0.5)
    assert (await extender.used(first), await extender.used(second)) == ([0], [4])


async def test_a_409_for_our_own_earlier_post_is_a_success(extender: Extender) -> None:
    node, pod = await extender.node(14), await extender.create(4)

    async def carried_out_but_lost(request: web.Request) -> web.StreamResponse:
        extender.proxy.later(request, 0)
        return status_answer(500, "InternalError", "spoiled: lost")

    extender.proxy.faults[:] = [on_bind(carried_out_but_lost)]
    assert "outcome unknown" in await extender.bind(pod, node)

    async def bound() -> bool:
        return bool((await extender.stored(pod))["spec"].get("nodeName"))

    await until(bound, "the POST to take effect")
    assert await extender.bind(pod, node) == ""
    assert await extender.used(node) == [4]


async def test_a_pod_that_another_scheduler_bound_first_is_reported_and_counted_on_its_node(
    extender: Extender,
) -> None:
    here, there, pod = await extender.node(14), await extender.node(14), await extender.create(4)

    async def overtaken(_: web.Request) -> web.StreamResponse | None:
        meta = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta["name"]},
            "target": {"name": there},
        }
        await extender.bed.api.create(f"/api/v1/namespaces/default/pods/{meta['name']}/binding", binding)
        return None

    extender.proxy.faults[:] = [on_bind(overtaken)]
    assert "already assigned to node" in await extender.bind(pod, here)
    await extender.until_inspected(there, lambda n: n["usedGPU"] == 4)
    assert await extender.used(here) == [0]


async def test_dropped_watches_lose_nothing(extender: Extender) -> None:
    node = await extender.node(14)
    extender.proxy.drop_streams()
    pod = await extender.create(4, nodeName=node)
    await extender.until_inspected(node, lambda n: n["usedGPU"] == 4)
    await extender.bed.api.delete(
        f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}", gracePeriodSeconds="0"
    )
    extender.proxy.drop_streams()
    await extender.until_inspected(node, lambda n: n["usedGPU"] == 0)


def too_old(*, times: int) -> tuple[Fault, Callable[[], Awaitable[bool]]]:
    """A fault that refuses so many watches of pods with 410, and whether it has."""
    refused = 0

    async def fault(request: web.Request) -> web.StreamResponse | None:
        nonlocal refused
        if "watch" in request.query and request.path == "/api/v1/pods" and refused < times:
            refused += 1
            return status_answer(410, "Expired", "too old resource version")
        return None

    async def done() -> bool:
        return refused == times

    return fault, done


async def test_a_watch_that_is_too_old_starts_over_with_a_list(extender: Extender) -> None:
    node = await extender.node(14)
    fault, refused_twice = too_old(times=2)
    extender.proxy.faults[:] = [fault]
    extender.proxy.drop_streams()
    await until(refused_twice, "two refused watches")
    await extender.create(4, nodeName=node)
    await extender.until_inspected(node, lambda n: n["usedGPU"] == 4)


async def test_a_pod_that_was_bound_unseen_and_is_absent_from_the_next_list_keeps_no_units(
    extender: Extender,
) -> None:
    """The watch has delivered neither its creation nor its deletion."""
    node = await extender.node(14)
    extender.proxy.watches_flow.clear()
    pod = await extender.create(4)
    assert await extender.bind(pod, node) == ""
    assert await extender.used(node) == [4]
    await extender.bed.api.delete(
        f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}", gracePeriodSeconds="0"
    )
    fault, refused = too_old(times=1)
    extender.proxy.faults[:] = [fault]
    extender.proxy.drop_streams()
    extender.proxy.watches_flow.set()
    await until(refused, "a refused watch")
    await extender.until_inspected(node, lambda n: n["usedGPU"] == 0)


# --- unhealthy GPUs -----------------------------------------------------------------------------


async def test_unhealthy_gpus_take_no_pod_and_an_unreadable_list_disables_none(extender: Extender) -> None:
    node = await extender.node(14, 14)
    await extender.bed.api.create(
        "/api/v1/namespaces/kube-system/configmaps",
        {"metadata": {"name": f"unhealthy-gpu-{node}"}, "data": {"gpus": " 0 , junk,"}},
    )

    async def closed() -> bool:
        answer = await extender.filter(gpu_pod("x", 28, labels={"aliyun.com/gpu-count": "2"}), node)
        return node in answer["FailedNodes"]

    await until(closed, "GPU 0 to be unschedulable", 15)
    pod = await extender.create(4)
    assert await extender.bind(pod, node) == ""
    assert await extender.used(node) == [0, 4]

    async def reported() -> bool:
        events = await extender.bed.api.items("/api/v1/namespaces/default/events")
        return any(
            "'junk' is not a GPU index" in e["message"] and e["involvedObject"]["name"] == node
            for e in events
        )

    await until(reported, "an event that names the junk", 15)
