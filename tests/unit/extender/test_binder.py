"""Binds against a fake API server: what is reserved, posted, kept, released and reported."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from gpushare import contract
from gpushare.extender.api import ExtenderApi
from gpushare.extender.binder import Binder
from gpushare.extender.cluster import ClusterState
from gpushare.extender.decision import BindRequest, BindResult
from gpushare.extender.group_holds import HOLD_S
from gpushare.extender.lease import LeaseDurations
from gpushare.extender.seal import Sealer
from gpushare.model.changes import Deleted, Upserted
from gpushare.model.demand import Amount, Malformed
from gpushare.model.modes import Mode
from gpushare.model.objects import Node, Pod
from gpushare.ports import KubeEvent
from tests.support.builders.scheduling import demand, free, node, pod, sound, unmanaged
from tests.support.steps import finished
from tests.support.virtual_time import skip_waits
from tests.support.waiting import until
from tests.unit.extender.fakes import FakeApi, carry_out, fail, gated, refused, silence

LONG_S = 60.0
"""Longer than any test: nothing settles by its deadline."""
SHORT_S = 0.05


@dataclass
class Rig:
    """A binder between a cluster and a fake API."""

    api: FakeApi
    cluster: ClusterState
    notes: list[KubeEvent] = field(default_factory=list)
    fenced: str | None = None
    busy_when_announced: list[bool] = field(default_factory=list)
    binder: Binder = field(init=False)

    def knows(self, *things: Node | Pod) -> None:
        """The watches have shown these, and the API has them."""
        for thing in things:
            if isinstance(thing, Node):
                self.cluster.change_nodes([Upserted(thing.name, thing)])
            else:
                self.api.has(thing)
                self.cluster.change_pods([Upserted(thing.uid, thing)])

    def show(self, uid: str) -> None:
        """The watch shows the pod as the API has it."""
        found = self.api.pods[f"default/{uid}"]
        self.cluster.change_pods([Upserted(uid, found)])

    async def bind(self, uid: str, at: str = "n", *, name: str | None = None) -> BindResult:
        return await self.binder.bind(BindRequest("default", name or uid, uid, at))

    def free(self, name: str = "n") -> list[int]:
        return free(self.cluster.ledger, name)

    async def announce(self) -> None:
        self.busy_when_announced.append(self.binder.busy)

    @property
    def unclear(self) -> bool:
        return len(self.binder.unclear) > 0


@asynccontextmanager
async def rig(*things: Node | Pod, api_request_s: float = LONG_S) -> AsyncIterator[Rig]:
    made = Rig(FakeApi(), ClusterState())
    api: ExtenderApi = made.api
    async with asyncio.TaskGroup() as tasks:
        made.binder = Binder(
            made.cluster,
            api,
            announce=made.announce,
            fence=lambda: made.fenced,
            record_event=made.notes.append,
            tasks=tasks,
            durations=LeaseDurations(post_s=1.0, api_request_s=api_request_s),
        )
        made.knows(*things)
        yield made
        await made.binder.drain()
        made.binder.unclear.cancel()


async def settled_deadline(rig: Rig, uid: str) -> None:
    await until(lambda: rig.binder.unclear.remaining_s(uid) == 0)


# --- the usual way -------------------------------------------------------------------------------


async def test_a_bind_posts_once_with_all_annotations_and_takes_the_units() -> None:
    async with rig(node("n", 14, 14), pod("a", 4)) as r:
        assert await r.bind("a") == BindResult()
        [post] = r.api.posts
        assert (post.node, post.pod.uid) == ("n", "a")
        assert post.annotations.pop(contract.ANN_ASSUME_TIME).isdigit()
        assert post.annotations == {
            contract.ANN_IDX: "0",
            contract.ANN_DEV: "14",
            contract.ANN_POD: "4",
            contract.ANN_ASSIGNED: "false",
            contract.ANN_ALLOCATION: '{"0":{"0":4}}',
            contract.ANN_MODE: "share",
        }
        assert r.free() == [10, 14]


async def test_a_bind_with_a_key_carries_a_seal_that_is_accepted() -> None:
    async with rig(node("n", 14, 14), pod("a", 4)) as r:
        r.cluster.sealer = Sealer(b"k" * 32)
        await r.bind("a")
        found = r.api.pods["default/a"]
        assert found.seal
        assert r.cluster.sealer.checked(found) == found
        assert (found.claim, found.mode) == (((0, Amount(4)),), Mode.SHARE)


async def test_a_second_attempt_repeats_the_mode_of_the_first() -> None:
    async with rig(node("n", 14, 14), pod("a", 4)) as r:
        r.api.script.append(fail(silence()))
        await r.bind("a")
        r.knows(node("n", 14, 14, mode=Mode.CGPU))
        assert await r.bind("a") == BindResult()
        assert [post.annotations[contract.ANN_MODE] for post in r.api.posts] == ["share", "share"]
        assert [usage.schedulable for usage in r.cluster.ledger.books["n"].usages] == [False, True]


async def test_the_event_of_each_bind_shows_the_free_units_after_it() -> None:
    async with rig(node("n", 14), *(pod(uid, 4) for uid in "abc")) as r:
        for uid in "abc":
            await r.bind(uid)
        assert [(n.reason, n.name, n.text) for n in r.notes] == [
            (contract.EVENT_PLACED, "a", "placed on node n: 4 units on GPU 0 (10 of 14 left)"),
            (contract.EVENT_PLACED, "b", "placed on node n: 4 units on GPU 0 (6 of 14 left)"),
            (contract.EVENT_PLACED, "c", "placed on node n: 4 units on GPU 0 (2 of 14 left)"),
        ]


async def test_the_event_names_every_gpu() -> None:
    async with rig(node("n", 14, 14), pod("a", demand(8, cards=2))) as r:
        await r.bind("a")
        assert r.notes[0].text == (
            "placed on node n: 4 units on GPU 0 (10 of 14 left), 4 units on GPU 1 (10 of 14 left)"
        )


async def test_the_event_of_a_second_attempt_counts_its_own_units_once() -> None:
    async with rig(node("n", 14), pod("a", 4)) as r:
        r.api.script.append(fail(silence()))
        await r.bind("a")
        assert await r.bind("a") == BindResult()
        assert [n.text for n in r.notes] == ["placed on node n: 4 units on GPU 0 (10 of 14 left)"]


async def test_binds_at_the_same_time_never_share_units_that_are_there_once() -> None:
    async with rig(node("n", 14), *(pod(uid, 8) for uid in "abc")) as r:
        gate = asyncio.Event()
        r.api.script += [gated(gate)] * 3
        binds = [asyncio.create_task(r.bind(uid)) for uid in "abc"]
        await until(lambda: sum(task.done() for task in binds) == 2)
        assert r.free() == [6]
        gate.set()
        outcomes = [await task for task in binds]
        assert [o.reason for o in outcomes].count("bound") == 1
        assert len(r.api.posts) == 1


# --- rejections before a POST --------------------------------------------------------------------


async def test_behind_the_fence_nothing_is_posted_and_nothing_reserved() -> None:
    async with rig(node("n", 14), pod("a", 4)) as r:
        r.fenced = "this extender does not hold the Lease"
        assert await r.bind("a") == BindResult("this extender does not hold the Lease", "fenced")
        assert r.api.posts == []
        assert r.free() == [14]
        assert r.cluster.ledger.reservation("a") is None


async def test_a_bind_is_announced_while_the_binder_is_busy_with_it() -> None:
    """Otherwise a renewal of the Lease in between could say that there is none."""
    async with rig(node("n", 14), pod("a", 4)) as r:
        assert not r.binder.busy
        await r.bind("a")
        assert r.busy_when_announced == [True]
        assert not r.binder.busy


async def test_a_fence_that_closes_while_a_connection_is_made_keeps_the_post_back() -> None:
    async with rig(node("n", 14), pod("a", 4)) as r:
        binding = asyncio.create_task(r.bind("a"))
        await until(lambda: r.free() == [10], poll_s=0)
        r.fenced = "this extender does not hold the Lease"
        outcome = await binding
        assert outcome.reason == "fenced"
        assert "does not hold the Lease" in outcome.error
        assert r.api.posts == []
        assert r.free() == [14]


async def test_the_fence_delays_a_second_attempt_and_keeps_its_reservation() -> None:
    async with rig(node("n", 14), pod("a", 4)) as r:
        r.api.script.append(fail(silence()))
        await r.bind("a")
        r.fenced = "not now"
        assert (await r.bind("a")).reason == "fenced"
        assert len(r.api.posts) == 1
        assert r.free() == [10]


@pytest.mark.parametrize("at", [None, "n", "m"], ids=["pending", "bound-there", "bound-elsewhere"])
async def test_a_pod_that_requests_no_gpushare_resource_is_rejected_by_name_and_changes_nothing(
    at: str | None,
) -> None:
    async with rig(node("n", 14, mode=Mode.CGPU, pods_per_card=1), pod("a", 4)) as r:
        r.api.has(unmanaged("web", at=at))
        for _ in range(2):  # a scheduler tries again
            assert await r.bind("web") == BindResult(
                "pod default/web asks for no aliyun.com/gpu-mem, and this extender binds only pods that do: "
                "set managedResources in its entry of the scheduler's configuration",
                "unmanaged",
            )
        assert (r.api.posts, r.notes) == ([], [])
        assert "web" not in r.cluster.pods
        assert r.cluster.ledger.reservation("web") is None
        assert await r.bind("a") == BindResult()


@pytest.mark.parametrize("name", ["n", "without GPUs"])
async def test_a_pod_that_requests_zero_is_bound_anywhere_without_an_allocation(name: str) -> None:
    async with rig(node("n", 14, closed="no library"), pod("zero", 0)) as r:
        assert await r.bind("zero", name) == BindResult()
        (post,) = r.api.posts
        assert (post.pod.uid, post.node, post.annotations) == ("zero", name, {})
        assert r.cluster.ledger.reservation("zero") is None


async def test_a_malformed_pod_is_rejected_with_its_problem_and_reported() -> None:
    async with rig(node("n", 14), pod("a", Malformed("limit is -4"))) as r:
        assert await r.bind("a") == BindResult("limit is -4", "malformed")
        assert [(n.reason, n.text, n.warning) for n in r.notes] == [
            (contract.EVENT_MALFORMED, "limit is -4", True)
        ]
        assert r.api.posts == []


async def test_a_pod_that_fits_nowhere_on_the_node_gets_the_numbers() -> None:
    async with rig(node("n", 14), pod("a", 12, at="n", card=0), pod("b", 4)) as r:
        outcome = await r.bind("b")
        assert outcome.reason == "no_fit"
        assert "asked 4, at most 2 of 14 free on GPU 0" in outcome.error
        assert [(n.reason, n.text) for n in r.notes] == [(contract.EVENT_REFUSED, outcome.error)]


async def test_a_pod_that_the_watch_has_not_shown_yet_is_read() -> None:
    async with rig(node("n", 14)) as r:
        r.api.has(pod("a", 4))
        assert await r.bind("a") == BindResult()
        assert r.free() == [10]


async def test_a_pod_that_cannot_be_read_is_an_error_and_reserves_nothing() -> None:
    async with rig(node("n", 14)) as r:
        r.api.read_error = refused(503, "etcd is away")
        assert await r.bind("a") == BindResult("reading pod default/a: etcd is away", "api_read")
        assert r.free() == [14]


async def test_a_pod_of_another_uid_is_rejected_with_the_text_of_the_aliyun_extender() -> None:
    async with rig(node("n", 14)) as r:
        r.api.has(pod("new", 4, name="web"))
        assert await r.bind("old", name="web") == BindResult(
            "The pod web in ns default's uid is new, and it's not equal with expected old", "wrong_uid"
        )


# --- clear rejections ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "reason"), [(403, "api_403"), (404, "not_found"), (422, "api_422"), (429, "api_429")]
)
async def test_a_clear_rejection_releases_the_units(status: int, reason: str) -> None:
    async with rig(node("n", 14), pod("a", 4)) as r:
        r.api.script.append(fail(refused(status, "because")))
        assert await r.bind("a") == BindResult("binding pod default/a to node n: because", reason)
        assert r.free() == [14]
        assert not r.unclear
        assert r.notes == []


async def test_a_rejection_of_a_second_attempt_does_not_release_units_of_the_first() -> None:
    async with rig(node("n", 14), pod("a", 4)) as r:
        r.api.script += [fail(silence()), fail(refused(403))]
        await r.bind("a")
        outcome = await r.bind("a")
        assert outcome.reason == "unclear"
        assert "an earlier attempt has no clear outcome" in outcome.error
        assert r.free() == [10]


# --- unclear outcomes ----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [silence(), refused(500), refused(503), refused(504), refused(408)])
async def test_an_unclear_answer_keeps_the_units(error: Exception) -> None:
    async with rig(node("n", 14), pod("a", 4)) as r:
        r.api.script.append(fail(error))
        outcome = await r.bind("a")
        assert outcome.reason == "unclear"
        assert outcome.error.endswith("outcome unknown, its units stay reserved")
        assert r.free() == [10]
        assert "a" in r.binder.unclear


async def test_a_second_attempt_on_the_same_node_posts_the_same_gpus_again() -> None:
    async with rig(node("n", 14, 14), pod("a", 4), pod("b", 10)) as r:
        r.api.script.append(fail(silence()))
        await r.bind("a")
        await r.bind("b")
        assert await r.bind("a") == BindResult()
        first, _, again = r.api.posts
        assert first.annotations[contract.ANN_ALLOCATION] == again.annotations[contract.ANN_ALLOCATION]
        assert not r.unclear


async def test_an_unclear_bind_blocks_another_node_with_the_remaining_time() -> None:
    async with rig(node("n", 14), node("m", 14), pod("a", 4)) as r:
        r.api.script.append(fail(silence()))
        await r.bind("a", "n")
        outcome = await r.bind("a", "m")
        assert outcome.reason == "elsewhere"
        assert "its units stay reserved there for up to 60 s" in outcome.error
        assert (r.free("n"), r.free("m")) == ([10], [14])


async def test_an_unclear_bind_that_took_effect_is_found_when_another_node_is_asked() -> None:
    async with rig(node("n", 14), node("m", 14), pod("a", 4)) as r:
        r.api.script.append(fail(silence(), after_effect=True))
        await r.bind("a", "n")
        assert await r.bind("a", "m") == BindResult("pod default/a is already bound to node n", "elsewhere")
        assert (r.free("n"), r.free("m")) == ([10], [14])
        assert not r.unclear


async def test_past_the_deadline_an_unbound_pod_goes_to_another_node() -> None:
    async with rig(node("n", 14), node("m", 14), pod("a", 4), api_request_s=SHORT_S) as r:
        r.api.script.append(fail(silence()))
        await r.bind("a", "n")
        await settled_deadline(r, "a")
        assert await r.bind("a", "m") == BindResult()
        assert (r.free("n"), r.free("m")) == ([14], [10])


async def test_a_repeated_bind_after_success_posts_nothing() -> None:
    async with rig(node("n", 14), pod("a", 4)) as r:
        await r.bind("a")
        assert await r.bind("a") == BindResult()
        r.show("a")
        assert await r.bind("a") == BindResult()
        assert len(r.api.posts) == 1


# --- conflicts -----------------------------------------------------------------------------------


async def test_a_conflict_with_our_own_earlier_post_is_a_success() -> None:
    async with rig(node("n", 14), pod("a", 4)) as r:
        r.api.script += [fail(silence(), after_effect=True), fail(refused(409, "already assigned"))]
        await r.bind("a")
        assert await r.bind("a") == BindResult()
        assert not r.unclear
        assert r.free() == [10]


@pytest.mark.parametrize(
    ("at", "left"), [("m", ([14, 14], [14, 10])), ("n", ([14, 10], [14, 14]))], ids=["elsewhere", "here"]
)
async def test_a_conflict_with_another_writer_counts_the_pod_on_the_gpu_that_it_chose(
    at: str, left: tuple[list[int], list[int]]
) -> None:
    async with rig(node("n", 14, 14), node("m", 14, 14), pod("a", 4)) as r:

        async def other_was_first(api: FakeApi, _: object) -> None:
            api.has(pod("a", 4, at=at, card=1))
            raise refused(409, "already assigned")

        r.api.script.append(other_was_first)
        outcome = await r.bind("a", "n")
        assert outcome.reason == "conflict"
        assert (r.free("n"), r.free("m")) == left


async def test_a_conflict_with_a_new_pod_of_that_name_releases_the_old_one() -> None:
    async with rig(node("n", 14), pod("a", 4, name="web")) as r:

        async def replaced(api: FakeApi, _: object) -> None:
            api.has(pod("b", 4, name="web"))
            raise refused(409, "UID mismatch")

        r.api.script.append(replaced)
        assert (await r.bind("a", name="web")).reason == "conflict"
        assert r.free() == [14]
        assert "a" not in r.cluster.pods


async def test_a_conflict_on_a_pod_that_is_unbound_releases_it() -> None:
    async with rig(node("n", 14), pod("a", 4)) as r:
        r.api.script.append(fail(refused(409)))
        assert (await r.bind("a")).reason == "conflict"
        assert r.free() == [14]


async def test_a_conflict_that_cannot_be_verified_keeps_the_units() -> None:
    async with rig(node("n", 14), pod("a", 4)) as r:
        r.api.script.append(fail(refused(409)))
        r.api.read_error = silence()
        assert (await r.bind("a")).reason == "unclear"
        assert r.free() == [10]
        assert "a" in r.binder.unclear


# --- calls at the same time ----------------------------------------------------------------------


async def test_calls_for_the_same_pod_and_node_join() -> None:
    async with rig(node("n", 14), pod("a", 4)) as r:
        gate = asyncio.Event()
        r.api.script.append(gated(gate))
        calls = [asyncio.create_task(r.bind("a")) for _ in range(3)]
        await until(lambda: r.api.posts)
        gate.set()
        assert [await call for call in calls] == [BindResult()] * 3
        assert len(r.api.posts) == 1


async def test_another_node_is_rejected_while_a_bind_is_under_way() -> None:
    async with rig(node("n", 14), node("m", 14), pod("a", 4)) as r:
        gate = asyncio.Event()
        r.api.script.append(gated(gate))
        call = asyncio.create_task(r.bind("a", "n"))
        await until(lambda: r.api.posts)
        assert await r.bind("a", "m") == BindResult(
            "a bind of pod default/a to node n is under way", "under_way"
        )
        gate.set()
        assert await call == BindResult()


async def test_a_caller_that_hangs_up_does_not_stop_its_bind() -> None:
    async with rig(node("n", 14), pod("a", 4)) as r:
        gate = asyncio.Event()
        r.api.script.append(gated(gate))
        call = asyncio.create_task(r.bind("a"))
        await until(lambda: r.api.posts)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        gate.set()
        await r.binder.drain()
        assert [n.reason for n in r.notes] == [contract.EVENT_PLACED]


async def test_draining_waits_for_every_post() -> None:
    async with rig(node("n", 14), pod("a", 4), pod("b", 4)) as r:
        gate = asyncio.Event()
        r.api.script += [gated(gate), gated(gate)]
        calls = [asyncio.create_task(r.bind(uid)) for uid in "ab"]
        await until(lambda: len(r.api.posts) == 2)
        drained = asyncio.create_task(r.binder.drain())
        await asyncio.sleep(0)
        assert not drained.done()
        gate.set()
        await drained
        assert [await call for call in calls] == [BindResult()] * 2


async def test_a_pod_that_goes_while_its_bind_is_under_way_reserves_nothing() -> None:
    async with rig(node("n", 14), pod("a", 4)) as r:
        gate = asyncio.Event()
        r.api.script.append(gated(gate, carry_out))
        call = asyncio.create_task(r.bind("a"))
        await until(lambda: r.api.posts)
        r.cluster.change_pods([Deleted("a")])
        gate.set()
        await call
        assert r.free() == [14]


# --- groups --------------------------------------------------------------------------------------


def members(*uids: str, units: int = 10) -> list[Pod]:
    return [replace(pod(uid, units), group="g") for uid in uids]


def planned(r: Rig, *uids: str) -> None:
    """Filter has returned node n for these members."""
    for uid in uids:
        each = r.cluster.pods[uid]
        found = finished(
            r.cluster.group_plans.filter_steps(each, sound(each.demand), ["n"], r.cluster.ledger)
        )
        assert found.passed == ["n"]


async def test_the_first_bind_of_a_group_reserves_the_places_of_all() -> None:
    async with rig(node("n", 14, 14), *members("a", "b")) as r:
        planned(r, "a", "b")
        assert await r.bind("a") == BindResult()
        assert r.free() == [4, 4]
        assert [post.pod.uid for post in r.api.posts] == ["a"]
        assert await r.bind("b") == BindResult()
        assert [post.pod.uid for post in r.api.posts] == ["a", "b"]
        assert r.free() == [4, 4]


async def test_no_bind_of_a_group_is_posted_once_a_place_is_taken() -> None:
    async with rig(node("n", 14, 14), *members("a", "b"), pod("x", 10)) as r:
        planned(r, "a", "b")
        assert await r.bind("x") == BindResult()
        outcomes = [await r.bind(uid) for uid in "ab"]
        assert [each.reason for each in outcomes] == ["no_fit", "no_plan"]
        assert outcomes[0].error == (
            "node n cannot take pod default/a: the pods of its group g do not all fit any more, "
            "so none is bound"
        )
        assert [post.pod.uid for post in r.api.posts] == ["x"]
        assert [note.text for note in r.notes if note.name == "a"] == [outcomes[0].error]


async def test_a_member_without_a_plan_is_refused_until_its_group_runs() -> None:
    """As on a replica that leads since the members were planned."""
    async with rig(node("n", 14, 14), *members("a", "b")) as r:
        assert (await r.bind("a")).reason == "no_plan"
        assert r.api.posts == []
        planned(r, "a")
        assert [await r.bind(uid) for uid in "ab"] == [BindResult(), BindResult()]


async def test_behind_the_fence_no_place_of_a_group_is_reserved() -> None:
    async with rig(node("n", 14, 14), *members("a", "b")) as r:
        planned(r, "a", "b")
        r.fenced = "this extender does not hold the Lease"
        assert (await r.bind("a")).reason == "fenced"
        assert r.free() == [14, 14]


async def test_places_that_no_bind_follows_for_are_released_after_their_time() -> None:
    async with rig(node("n", 14, 14), *members("a", "b")) as r:
        planned(r, "a", "b")
        await r.bind("a")
        skip_waits(asyncio.get_running_loop())
        await asyncio.sleep(HOLD_S - 1)
        assert r.free() == [4, 4]
        await asyncio.sleep(2)
        assert r.free() == [4, 14]


async def test_a_place_that_was_reserved_again_has_its_full_time() -> None:
    async with rig(node("n", 14, 14, 14), *members("a", "b", "c")) as r:
        planned(r, "a", "b")
        await r.bind("a")
        r.api.script.append(fail(refused(403)))
        assert (await r.bind("b")).reason == "api_403"
        skip_waits(asyncio.get_running_loop())
        await asyncio.sleep(HOLD_S - 1)
        planned(r, "b", "c")
        assert await r.bind("c") == BindResult()
        await asyncio.sleep(2)
        assert r.free() == [4, 4, 4]
        await asyncio.sleep(HOLD_S)
        assert sorted(r.free()) == [4, 4, 14]


async def test_a_deleted_member_leaves_its_place() -> None:
    async with rig(node("n", 14, 14), *members("a", "b")) as r:
        planned(r, "a", "b")
        await r.bind("a")
        r.cluster.change_pods([Deleted("b")])
        assert r.free() == [4, 14]


async def test_the_next_leader_binds_the_rest_of_a_group_one_by_one() -> None:
    """The leader that planned the group ended between its binds."""
    bound = replace(pod("a", 10, at="n", card=0), group="g")
    async with rig(node("n", 14, 14, 14), bound, *members("b", "c")) as r:
        assert [await r.bind(uid) for uid in "bc"] == [BindResult(), BindResult()]
        assert r.free() == [4, 4, 4]


async def test_a_place_that_another_pod_takes_between_two_leaders_is_named() -> None:
    bound = replace(pod("a", 10, at="n", card=0), group="g")
    async with rig(node("n", 14, 14), bound, *members("b"), pod("x", 10)) as r:
        assert await r.bind("x") == BindResult()
        outcome = await r.bind("b")
        assert outcome.reason == "no_fit"
        assert [note.text for note in r.notes if note.name == "b"] == [outcome.error]


async def test_a_bind_of_the_last_leader_that_takes_effect_late_begins_the_group() -> None:
    async with rig(node("n", 14, 14), *members("a", "b")) as r:
        assert (await r.bind("b")).reason == "no_plan"
        late = r.api.place(r.cluster.pods["a"], "n", {contract.ANN_IDX: "0", contract.ANN_POD: "10"})
        r.cluster.change_pods([Upserted("a", late)])
        assert await r.bind("b") == BindResult()


@pytest.mark.parametrize(("status", "reason"), [(403, "api_403"), (422, "api_422")])
async def test_a_member_whose_bind_the_api_refuses_leaves_the_places_of_the_others(
    status: int, reason: str
) -> None:
    async with rig(node("n", 14, 14, 14), *members("a", "b", "c")) as r:
        planned(r, "a", "b", "c")
        assert await r.bind("a") == BindResult()
        r.api.script.append(fail(refused(status)))
        assert (await r.bind("b")).reason == reason
        assert r.free() == [4, 14, 4]
        assert await r.bind("c") == BindResult()
        planned(r, "b")
        assert await r.bind("b") == BindResult()
        assert r.free() == [4, 4, 4]


async def test_a_member_that_the_api_refused_waits_if_its_place_is_taken() -> None:
    async with rig(node("n", 14, 14), *members("a", "b"), pod("x", 10)) as r:
        planned(r, "a", "b")
        assert await r.bind("a") == BindResult()
        r.api.script.append(fail(refused(403)))
        assert (await r.bind("b")).reason == "api_403"
        assert await r.bind("x") == BindResult()
        outcome = await r.bind("b")
        assert outcome.reason == "no_fit"
        assert [note.text for note in r.notes if note.name == "b"] == [outcome.error]


async def test_a_bind_in_flight_keeps_its_place_while_a_refused_sibling_is_tried_again() -> None:
    async with rig(node("n", 14, 14), *members("a", "b")) as r:
        planned(r, "a", "b")
        gate = asyncio.Event()
        r.api.script += [gated(gate), fail(refused(403))]
        first = asyncio.ensure_future(r.bind("a"))
        await until(lambda: len(r.api.posts) == 1)
        assert (await r.bind("b")).reason == "api_403"
        planned(r, "b")
        assert await r.bind("b") == BindResult()
        assert r.free() == [4, 4]
        gate.set()
        assert await first == BindResult()
        assert r.free() == [4, 4]


async def test_a_bind_without_an_answer_keeps_its_place_while_its_group_is_tried_again() -> None:
    async with rig(node("n", 14, 14), *members("a", "b")) as r:
        planned(r, "a", "b")
        r.api.script.append(fail(silence(), after_effect=True))
        assert (await r.bind("a")).reason == "unclear"
        assert await r.bind("b") == BindResult()
        assert await r.bind("a") == BindResult()
        assert r.free() == [4, 4]


# --- defects -------------------------------------------------------------------------------------


async def test_an_aborted_bind_fails_alone_and_keeps_its_units() -> None:
    async with rig(node("n", 14), pod("a", 4), pod("b", 4)) as r:
        r.api.script.append(fail(RuntimeError("a defect")))
        outcome = await r.bind("a")
        assert outcome == BindResult("binding pod default/a: internal error, see the log", "internal")
        assert r.free() == [10]
        assert "a" in r.binder.unclear
        assert await r.bind("b") == BindResult()


async def test_an_aborted_bind_of_a_pod_unknown_to_the_watch_is_tracked_too() -> None:
    async with rig(node("n", 14)) as r:
        r.api.has(pod("a", 4))
        r.api.script.append(fail(RuntimeError("a defect")))
        assert (await r.bind("a")).reason == "internal"
        assert r.free() == [10]
        assert "a" in r.binder.unclear
