"""GPUs that are unschedulable because of whole-GPU pods of another device plugin."""

import pytest

from gpushare.contract import RESOURCE_CORE, RESOURCE_MEM
from gpushare.deviceplugin.core.shared_gpus import ExcludedGpu, SharedGpus
from gpushare.deviceplugin.core.whole_gpus import (
    WholeGpus,
    cards_of,
    devices_by_pod,
    notices,
    with_whole_gpus,
)
from gpushare.model.cards import Card
from gpushare.model.options import MemoryUnit

ZERO, ONE, TWO = (f"GPU-0000000{n}-3e5a-4b17-9c2e-5da9abb51763" for n in range(3))
SHARED = SharedGpus(MemoryUnit.GIB, (Card(0, 14, ZERO), Card(1, 14, ONE)))
BESIDE_MIG = SharedGpus(
    MemoryUnit.GIB, SHARED.cards, (ExcludedGpu(2, "A100", "it is in MIG mode", mig=True),)
)
MIG = "MIG-8f2c1d90-3e5a-4b17-9c2e-5da9abb51763"


def having(*ids: str, uid: str = "u") -> WholeGpus:
    return WholeGpus({uid: frozenset(ids)}).with_pods({uid: "default/app"})


def full(shared_gpus: SharedGpus, whole: WholeGpus) -> list[int]:
    return [card.index for card in with_whole_gpus(shared_gpus, whole).cards if card.whole_gpu_pods]


@pytest.mark.parametrize(
    ("identifier", "cards"),
    [
        (ONE, [1]),
        (f"{ONE}::3", [1]),
        ("1", [1]),
        (f"MIG-{ONE}/3/0", [1]),
        (TWO, []),
        (f"{TWO}::0", []),
        (f"MIG-{TWO}/3/0", []),
    ],
)
def test_a_device_fills_the_gpu_that_its_id_names_and_no_other(identifier: str, cards: list[int]) -> None:
    assert full(SHARED, having(identifier)) == cards


@pytest.mark.parametrize("identifier", ["nvidia1", "7", "0:1", MIG, "GPU-1", f"{ONE}-3", "", "١"])
def test_a_device_of_an_unknown_gpu_fills_all_gpus_and_is_named(identifier: str) -> None:
    whole = having(identifier)
    assert full(SHARED, whole) == [0, 1]
    *_, last = notices(with_whole_gpus(SHARED, whole), whole)
    assert last == f"default/app has the device {identifier!r} of another plugin, which may be on any GPU"


def test_a_mig_device_is_on_a_gpu_in_mig_mode_which_is_not_shared() -> None:
    assert cards_of(MIG, BESIDE_MIG) == frozenset()
    assert cards_of("2", BESIDE_MIG) == frozenset()
    assert cards_of("3", BESIDE_MIG) is None


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"])
def test_all_devices_of_nvidias_resources_count(resource: str) -> None:
    recorded = [("a", resource, frozenset({"odd"})), ("a", resource, frozenset({ZERO}))]
    assert devices_by_pod(recorded) == {"a": {"odd", ZERO}}


def test_of_other_resources_those_count_that_are_named_as_gpus() -> None:
    recorded = [
        ("a", "nvidia.com/t4", frozenset({f"{ZERO}::1", "odd"})),
        ("b", "rdma/hca", frozenset({"mlx5_0"})),
        ("c", RESOURCE_MEM, frozenset({f"{ONE}-_-3", ONE})),
        ("d", RESOURCE_CORE, frozenset({ONE})),
    ]
    assert devices_by_pod(recorded) == {"a": {f"{ZERO}::1"}}


def test_a_whole_gpu_is_unschedulable_and_healthy_for_the_kubelet() -> None:
    found = with_whole_gpus(SHARED, having(ONE))
    assert found.cards[1] == Card(1, 14, ONE, healthy=False, whole_gpu_pods=("default/app",))
    assert (found.cards[0], found.cordoned, found.unschedulable) == (SHARED.cards[0], frozenset({1}), "1")


def test_an_unhealthy_gpu_stays_unhealthy_while_it_is_full() -> None:
    unwell = SharedGpus(MemoryUnit.GIB, (Card(0, 14, ZERO, healthy=False),))
    found = with_whole_gpus(unwell, having(ZERO))
    assert (found.cards[0].healthy, found.cordoned) == (False, frozenset())


def test_a_pod_is_named_by_its_uid_until_the_api_shows_it_and_by_its_name_from_then_on() -> None:
    unseen = WholeGpus().with_devices({"u": frozenset({ONE})})
    assert with_whole_gpus(SHARED, unseen).cards[1].whole_gpu_pods == ("pod UID u",)
    seen = unseen.with_pods({"u": "default/app", "x": "default/other"})
    deleted = seen.with_pods({})
    for each in (seen, deleted):
        assert with_whole_gpus(SHARED, each).cards[1].whole_gpu_pods == ("default/app",)
    assert (seen.unseen, deleted.unseen) == (frozenset(), frozenset({"u"}))


def test_two_pods_of_a_time_sliced_gpu_both_count() -> None:
    whole = WholeGpus().with_devices({"u": frozenset({f"{ONE}::0"}), "v": frozenset({f"{ONE}::1"})})
    whole = whole.with_pods({"u": "default/a", "v": "default/b"})
    assert list(notices(with_whole_gpus(SHARED, whole), whole)) == [
        "GPU 1 takes no pods until default/a and default/b are gone, which have a whole GPU"
    ]
    assert full(SHARED, whole.with_pods({"v": "default/b"}).with_gone(frozenset({"u"}))) == [1]


def test_a_recorded_pod_that_is_gone_does_not_fill_its_gpu_again() -> None:
    named = {"u": frozenset({ONE})}
    gone = WholeGpus().with_devices(named).with_pods({}).with_gone(frozenset({"u"}))
    assert full(SHARED, gone) == full(SHARED, gone.with_devices(named)) == []


def test_a_pod_that_reappears_has_its_gpu_until_it_is_gone_again() -> None:
    back = (
        WholeGpus()
        .with_devices({"u": frozenset({ONE})})
        .with_gone(frozenset({"u"}))
        .with_pods({"u": "kube-system/static"})
    )
    assert full(SHARED, back) == full(SHARED, back.with_gone(frozenset({"u"}))) == [1]
    leaving = back.with_pods({})
    assert (full(SHARED, leaving), leaving.unseen) == ([1], frozenset({"u"}))
    assert full(SHARED, leaving.with_gone(frozenset({"u"}))) == []


def test_a_record_that_was_lost_frees_no_gpu() -> None:
    assert full(SHARED, having(ONE).with_devices({})) == [1]


def test_a_gone_pod_that_is_no_longer_recorded_is_removed() -> None:
    whole = having(ONE).with_pods({}).with_gone(frozenset({"u"})).with_devices({}).with_pods({})
    assert whole == WholeGpus()
