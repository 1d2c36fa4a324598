"""Writes to the API server: their order, and retries of failed writes."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import pytest
from structlog.testing import capture_logs

from gpushare.contract import ANN_ASSIGNED_NODE, ANN_CARDS, LABEL_CARD_MODEL, RESOURCE_COUNT, RESOURCE_MEM
from gpushare.deviceplugin.api.backoff import BackoffPolicy
from gpushare.deviceplugin.api.writer import ApiWriter
from gpushare.deviceplugin.core.node_patch import DesiredNode, desired_node
from gpushare.deviceplugin.core.shared_gpus import SharedGpus
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.deviceplugin.watchdog import Watchdog
from gpushare.errors import ApiError
from gpushare.model.cards import Card
from gpushare.model.local_node import LocalNode, Taint
from gpushare.model.options import MemoryUnit
from gpushare.ports import node_event
from tests.support.builders.scheduling import pod
from tests.support.waiting import until
from tests.unit.deviceplugin.fakes import FakeAgentApi, refused, silence

SHARED = SharedGpus(MemoryUnit.GIB, (Card(0, 14, "GPU-a", "Tesla T4", 15079),))
QUICK = BackoffPolicy(initial_s=0.001, max_s=0.01, denied_s=0.01)
UNHURRIED = BackoffPolicy(initial_s=0.3, max_s=0.3, denied_s=0.3)
"""Long enough that no second attempt is due while another write is pending, even on a busy machine."""
SERVED: dict[str, str | None] = {"ALIYUN_COM_GPU_MEM_ASSIGNED": "true"}
NODE = LocalNode("n")


def want(assigned: str = "{}") -> DesiredNode:
    return desired_node(SHARED, assigned)


@dataclass
class Scene:
    """A running writer and the API that it writes to."""

    api: FakeAgentApi = field(default_factory=FakeAgentApi)
    metrics: PluginMetrics = field(default_factory=PluginMetrics)
    backoff: BackoffPolicy = QUICK

    def __post_init__(self) -> None:
        self.writer = ApiWriter(self.api, self.metrics, Watchdog(self.metrics), self.backoff)

    def publish(self, assigned: str = "{}") -> None:
        """Let the writer see the node, and want that state of it."""
        self.writer.observe_node(NODE)
        self.writer.set_node(want(assigned))

    async def settles(self) -> None:
        """Wait until the API has the whole desired state."""
        await idle()
        await until(lambda: self.metric("unpublished") == 0)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"gpushare_device_plugin_{name}", labels)


@asynccontextmanager
async def working(scene: Scene) -> AsyncIterator[Scene]:
    task = asyncio.create_task(scene.writer.run())
    try:
        yield scene
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def idle(turns: int = 50) -> None:
    """Give the writer time for writes that it must not do."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_unhealthy_gpus_are_written_before_the_node_and_the_node_before_any_pod() -> None:
    async with working(Scene()) as scene:
        scene.writer.set_pods({"a": (pod("a"), SERVED), "b": (pod("b"), SERVED)})
        scene.writer.set_unhealthy("0")
        scene.writer.set_node(want('{"a":{}}'))
        scene.writer.observe_node(NODE)
        await scene.settles()
        assert scene.api.log == ["unhealthy", "node", "a", "b"]
        assert scene.api.node.annotations[ANN_ASSIGNED_NODE] == '{"a":{}}'
        assert scene.api.pods == {"a": SERVED, "b": SERVED}
        assert scene.api.unhealthy == "0"


async def test_pods_are_written_after_the_first_write_of_the_node() -> None:
    async with working(Scene()) as scene:
        scene.writer.observe_node(NODE)
        scene.writer.set_pods({"a": (pod("a"), SERVED)})
        await idle()
        assert scene.api.log == []
        scene.writer.set_node(want())
        await scene.settles()
        assert scene.api.log == ["node", "a"]


async def test_nothing_is_written_before_the_node_has_been_seen() -> None:
    async with working(Scene()) as scene:
        scene.writer.set_node(want())
        scene.writer.set_pods({"a": (pod("a"), SERVED)})
        await idle()
        assert scene.api.log == []
        assert scene.metric("unpublished") == 2
        scene.writer.observe_node(NODE)
        await scene.settles()
        assert scene.metric("unpublished") == 0


async def test_a_pod_is_not_corrected_while_the_node_cannot_be_written() -> None:
    scene = Scene(FakeAgentApi(node_errors=deque([refused(500)] * 3)))
    async with working(scene):
        scene.publish()
        scene.writer.set_pods({"a": (pod("a"), SERVED)})
        await scene.settles()
        assert scene.api.log == ["node"] * 4 + ["a"]
        assert scene.metric("api_writes_total", kind="nodes", result="error") == 3
        assert scene.metric("api_writes_total", kind="nodes", result="ok") == 1


async def test_a_later_correction_waits_for_the_newer_node_annotation() -> None:
    async with working(Scene()) as scene:
        scene.publish()
        await scene.settles()
        scene.api.log.clear()
        scene.writer.set_pods({"a": (pod("a"), SERVED)})
        scene.writer.set_node(want('{"a":{}}'))
        await scene.settles()
        assert scene.api.log == ["node", "a"]


async def test_a_node_that_agrees_is_not_written() -> None:
    async with working(Scene()) as scene:
        scene.publish()
        await scene.settles()
        scene.writer.observe_node(scene.api.node)
        scene.writer.set_node(want())
        await scene.settles()
        assert scene.api.log == ["node"]


async def test_lost_values_are_written_again() -> None:
    async with working(Scene()) as scene:
        scene.publish()
        await scene.settles()
        scene.writer.observe_node(replace(scene.api.node, capacity={RESOURCE_COUNT: 0}))
        await scene.settles()
        assert scene.api.patches[1] == {"status": {"capacity": {RESOURCE_COUNT: 1}}}


async def test_changes_before_a_write_cause_one_write() -> None:
    async with working(Scene()) as scene:
        scene.writer.observe_node(NODE)
        for number in range(100):
            scene.writer.set_node(want(str(number)))
            scene.writer.set_unhealthy(str(number))
        await scene.settles()
        assert scene.api.log == ["unhealthy", "node"]
        assert (scene.api.node.annotations[ANN_ASSIGNED_NODE], scene.api.unhealthy) == ("99", "99")


async def test_a_change_during_a_write_is_written_next() -> None:
    scene = Scene()

    async def newer() -> None:
        scene.api.before = None
        scene.writer.set_node(want("newer"))
        scene.writer.set_pods({"a": (pod("a"), {"x": "2"})})

    async with working(scene):
        scene.publish("older")
        scene.writer.set_pods({"a": (pod("a"), {"x": "1"})})
        scene.api.before = newer
        await scene.settles()
        assert scene.api.log == ["node", "node", "a"]
        assert scene.api.node.annotations[ANN_ASSIGNED_NODE] == "newer"
        assert scene.api.pods["a"] == {"x": "2"}


async def test_nothing_is_lost_while_the_api_is_unavailable() -> None:
    async with working(Scene(FakeAgentApi(away=True))) as scene:
        scene.publish("1")
        scene.writer.set_pods({"a": (pod("a"), SERVED), "b": (pod("b"), SERVED)})
        scene.writer.set_unhealthy("0")
        scene.writer.record_event(node_event("n", "Reason", "text"))
        await until(lambda: scene.api.log.count("node") > 2)
        assert scene.metric("unpublished") == 4
        scene.writer.set_node(want("2"))
        scene.api.away = False
        await scene.settles()
        await until(lambda: scene.api.events)
        assert scene.api.node.annotations[ANN_ASSIGNED_NODE] == "2"
        assert (scene.api.pods, scene.api.unhealthy) == ({"a": SERVED, "b": SERVED}, "0")


async def test_a_failed_write_of_a_pod_delays_no_other() -> None:
    scene = Scene(FakeAgentApi(pod_errors={"a": deque([refused(500)] * 2)}), backoff=UNHURRIED)
    async with working(scene):
        scene.publish()
        scene.writer.set_pods({"a": (pod("a"), SERVED), "b": (pod("b"), SERVED)})
        await scene.settles()
        assert scene.api.log[:3] == ["node", "a", "b"]
        assert scene.api.pods == {"a": SERVED, "b": SERVED}


async def test_a_deleted_pod_is_removed() -> None:
    scene = Scene(FakeAgentApi(pod_errors={"a": deque([refused(404)])}))
    async with working(scene):
        scene.publish()
        scene.writer.set_pods({"a": (pod("a"), SERVED)})
        await scene.settles()
        scene.writer.set_pods({"a": (pod("a"), SERVED)})
        await scene.settles()
        assert scene.api.log == ["node", "a"]
        assert scene.api.pods == {}


async def test_a_write_conflict_of_a_pod_is_retried() -> None:
    scene = Scene(FakeAgentApi(pod_errors={"a": deque([refused(409)])}))
    async with working(scene):
        scene.publish()
        scene.writer.set_pods({"a": (pod("a"), SERVED)})
        await scene.settles()
        assert scene.api.pods == {"a": SERVED}


async def test_a_pod_that_is_set_again_after_its_removal_is_written_again() -> None:
    async with working(Scene()) as scene:
        scene.publish()
        for wishes in ({"a": (pod("a"), SERVED)}, {}, {"a": (pod("a"), SERVED)}):
            scene.writer.set_pods(wishes)
            await scene.settles()
        assert scene.api.log == ["node", "a", "a"]


async def test_a_removed_pod_is_not_retried() -> None:
    scene = Scene(FakeAgentApi(pod_errors={"a": deque([refused(500)] * 1000)}))
    async with working(scene):
        scene.publish()
        scene.writer.set_pods({"a": (pod("a"), SERVED)})
        await until(lambda: scene.api.log.count("a") > 2)
        scene.writer.set_pods({})
        await scene.settles()
        tries = len(scene.api.log)
        await idle()
        assert len(scene.api.log) == tries


REFUSED_LABELS = "not allowed to modify labels"
PATIENT = replace(QUICK, denied_s=1000)


@pytest.mark.parametrize("status", [403, 422])
async def test_refused_labels_are_omitted_logged_once_and_not_retried_soon(status: int) -> None:
    scene = Scene(FakeAgentApi(node_errors=deque([refused(status, REFUSED_LABELS)])), backoff=PATIENT)
    with capture_logs() as logs:
        async with working(scene):
            scene.publish()
            await scene.settles()
            scene.writer.observe_node(scene.api.node)
            scene.writer.set_node(want("more"))
            await scene.settles()
    assert [entry["event"] for entry in logs] == ["degraded_mode"]
    assert scene.metric("degraded_mode", right="node labels") == 1
    assert scene.api.log == ["node", "node", "node"]
    assert LABEL_CARD_MODEL not in scene.api.node.labels
    assert ANN_CARDS in scene.api.node.annotations


@pytest.mark.parametrize("status", [403, 422])
async def test_refused_labels_are_retried_later_and_logged_once_accepted(status: int) -> None:
    errors = deque([refused(status, REFUSED_LABELS), None, refused(status, REFUSED_LABELS)])
    scene = Scene(FakeAgentApi(node_errors=errors))
    with capture_logs() as logs:
        async with working(scene):
            scene.publish()
            await until(lambda: scene.api.node.labels.get(LABEL_CARD_MODEL) == "Tesla-T4")
            await scene.settles()
    assert [entry["event"] for entry in logs] == ["degraded_mode", "degraded_mode_over"]
    assert scene.metric("degraded_mode", right="node labels") == 0


async def test_labels_that_are_all_that_is_missing_can_be_refused_too() -> None:
    scene = Scene(backoff=PATIENT)
    async with working(scene):
        scene.publish()
        await scene.settles()
        scene.api.node_errors.append(refused(403))
        scene.writer.observe_node(replace(scene.api.node, labels={}))
        await scene.settles()
        assert scene.api.log == ["node", "node"]


async def test_a_missing_permission_for_the_node_is_not_attributed_to_labels() -> None:
    scene = Scene(FakeAgentApi(node_errors=deque([refused(403), refused(403)])))
    async with working(scene):
        scene.publish()
        await until(lambda: scene.metric("degraded_mode", right="nodes") == 1, poll_s=0)
        await scene.settles()
        assert scene.metric("degraded_mode", right="nodes") == 0
        assert scene.api.node.labels[LABEL_CARD_MODEL] == "Tesla-T4"


async def test_a_missing_permission_for_configmaps_is_logged_once_and_stops_nothing() -> None:
    scene = Scene(FakeAgentApi(unhealthy_errors=deque([refused(403, "may not")] * 3)))
    with capture_logs() as logs:
        async with working(scene):
            scene.writer.set_unhealthy("1")
            await until(lambda: scene.metric("degraded_mode", right="configmaps") == 1, poll_s=0)
            scene.publish()
            await scene.settles()
    assert [(entry["event"], entry.get("right", entry.get("what"))) for entry in logs] == [
        ("degraded_mode", "configmaps"),
        ("published_after_failure", "configmaps"),
    ]
    assert scene.api.unhealthy == "1"
    assert scene.metric("degraded_mode", right="configmaps") == 0


async def test_without_the_permission_for_configmaps_nothing_is_logged_while_all_gpus_are_healthy() -> None:
    scene = Scene(FakeAgentApi(unhealthy_errors=deque([refused(403, "may not")] * 2)), backoff=PATIENT)
    with capture_logs() as logs:
        async with working(scene):
            scene.writer.set_unhealthy("")
            await scene.settles()
            assert not scene.metric("degraded_mode", right="configmaps")
            for indices in ("1", "", "1", ""):
                scene.writer.set_unhealthy(indices)
                await idle()
            await scene.settles()
    assert [(entry["event"], entry["right"]) for entry in logs] == [("degraded_mode", "configmaps")]
    assert scene.metric("degraded_mode", right="configmaps") == 1
    assert scene.api.log == ["unhealthy"] * 2


async def test_a_list_that_cannot_be_emptied_is_logged() -> None:
    scene = Scene(FakeAgentApi(unhealthy_errors=deque([None, refused(403, "may not")])), backoff=PATIENT)
    async with working(scene):
        scene.writer.set_unhealthy("1")
        await scene.settles()
        scene.writer.set_unhealthy("")
        await until(lambda: scene.metric("degraded_mode", right="configmaps") == 1, poll_s=0)
        assert scene.metric("unpublished") == 1


async def test_after_a_missing_permission_the_next_attempt_is_late() -> None:
    scene = Scene(FakeAgentApi(unhealthy_errors=deque([refused(403)])), backoff=replace(QUICK, denied_s=1000))
    async with working(scene):
        scene.writer.set_unhealthy("1")
        await until(lambda: scene.metric("degraded_mode", right="configmaps") == 1, poll_s=0)
        await asyncio.sleep(0.05)
        assert scene.api.log == ["unhealthy"]


async def test_allocations_are_published_soon_after_they_were_denied() -> None:
    """An API server that has just started denies every request until it has read the roles."""
    scene = Scene(FakeAgentApi(node_errors=deque([refused(403), refused(403)])), backoff=PATIENT)
    async with working(scene):
        scene.publish()
        await until(lambda: ANN_CARDS in scene.api.node.annotations)


SLOW = BackoffPolicy(initial_s=1000, max_s=1000)


async def test_a_late_echo_of_an_older_state_causes_no_write() -> None:
    async with working(Scene(backoff=SLOW)) as scene:
        scene.publish("1")
        await scene.settles()
        older = scene.api.node
        scene.writer.set_node(want("2"))
        await scene.settles()
        scene.writer.observe_node(older)
        await idle()
        scene.writer.observe_node(scene.api.node)
        await scene.settles()
        assert scene.api.log == ["node", "node"]


async def test_reverted_writes_are_retried_slowly_and_do_not_delay_changes() -> None:
    async with working(Scene(backoff=SLOW)) as scene:
        scene.writer.set_node(want("1"))
        for _ in range(20):
            scene.writer.observe_node(NODE)
            await idle()
        assert scene.api.log == ["node"]
        scene.writer.set_node(want("2"))
        await scene.settles()
        assert scene.api.node.annotations[ANN_ASSIGNED_NODE] == "2"


async def test_reverted_writes_are_eventually_repeated() -> None:
    async with working(Scene()) as scene:
        scene.writer.set_node(want())
        for _ in range(5):
            scene.writer.observe_node(NODE)
            await scene.settles()
        assert scene.api.log == ["node"] * 5


async def test_the_list_of_unhealthy_gpus_is_emptied_too() -> None:
    async with working(Scene(FakeAgentApi(unhealthy="0,1"))) as scene:
        scene.writer.set_unhealthy("")
        await scene.settles()
        assert scene.api.unhealthy == ""


async def test_a_write_that_got_no_answer_is_repeated() -> None:
    scene = Scene(FakeAgentApi(node_errors=deque([silence()])))
    async with working(scene):
        scene.publish()
        await scene.settles()
        assert scene.api.log == ["node", "node"]
        assert LABEL_CARD_MODEL in scene.api.node.labels


# --- startup taints --------------------------------------------------------------------------------

STARTED = replace(
    NODE,
    annotations={ANN_CARDS: "[]"},
    allocatable={RESOURCE_MEM: 14},
    taints=(Taint("other", "NoSchedule"), Taint("gpushare.io/starting", "NoSchedule")),
)


def started(*taint_errors: ApiError) -> Scene:
    """A node whose units are there, and whose desired state the writer knows."""
    scene = Scene(FakeAgentApi(node=STARTED, taint_errors=deque(taint_errors)))
    scene.writer.set_node(want())
    scene.writer.observe_node(STARTED)
    return scene


async def test_a_startup_taint_goes_after_the_node_and_its_pods_are_written() -> None:
    scene = started()
    scene.writer.set_pods({"a": (pod("a"), SERVED)})
    async with working(scene):
        await scene.settles()
    assert scene.api.log == ["node", "a", "taints"]
    assert [taint.key for taint in scene.api.node.taints] == ["other"]


async def test_a_startup_taint_stays_until_the_units_are_there() -> None:
    scene = Scene(FakeAgentApi(node=replace(STARTED, allocatable={})))
    async with working(scene):
        scene.writer.set_node(want())
        scene.writer.observe_node(scene.api.node)
        await scene.settles()
        assert scene.api.log == ["node"]
        scene.writer.observe_node(replace(scene.api.node, allocatable={RESOURCE_MEM: 14}))
        await scene.settles()
    assert scene.api.log[-1] == "taints"


async def test_after_another_controller_changed_the_taints_they_are_read_again() -> None:
    """The patch did not apply, and the watch shows the new places."""
    scene = started(refused(422, "test failed"))

    async def shrink() -> None:
        if scene.api.log[-1] == "taints" and len(scene.api.node.taints) > 1:
            scene.api.node = replace(scene.api.node, taints=STARTED.taints[1:])
            scene.writer.observe_node(scene.api.node)

    scene.api.before = shrink
    async with working(scene):
        await scene.settles()
    assert scene.api.node.taints == ()
    assert [each["path"] for each in scene.api.removals[0] if each["op"] == "remove"] == ["/spec/taints/0"]


async def test_a_taint_that_another_agent_has_removed_is_no_error_for_long() -> None:
    scene = started(*[refused(422, "path is missing")] * 2)
    async with working(scene):
        await until(lambda: scene.api.log.count("taints") >= 1, poll_s=0)
        scene.writer.observe_node(replace(scene.api.node, taints=()))
        await scene.settles()
    assert scene.metric("degraded_mode", right="node taints") in (None, 0)


async def test_without_the_right_to_patch_nodes_it_is_said_and_the_rest_works() -> None:
    scene = started(*[refused(403, "cannot patch nodes")] * 3)
    scene.writer.set_pods({"a": (pod("a"), SERVED)})
    with capture_logs() as logs:
        async with working(scene):
            await until(lambda: scene.metric("degraded_mode", right="node taints") == 1, poll_s=0)
            assert scene.api.log[:2] == ["node", "a"]
            await scene.settles()
    assert scene.metric("degraded_mode", right="node taints") == 0
    (said,) = (entry for entry in logs if entry["event"] == "degraded_mode")
    assert said["effect"] == "the node keeps its startup taint: set startupTaint of the node agent"
