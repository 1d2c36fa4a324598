"""From API JSON to pods."""

from typing import Any

import msgspec
import pytest

from gpushare import contract
from gpushare.adapters.kube.wire import WirePod, pod_of
from gpushare.model.annotations import Shares
from gpushare.model.demand import Amount, ContainerKind, Demand, Malformed
from gpushare.model.modes import Mode
from gpushare.model.objects import Pod

MEM, CORE = contract.RESOURCE_MEM, contract.RESOURCE_CORE
CLAIM = {contract.ANN_IDX: "1", contract.ANN_POD: "4", contract.ANN_ALLOCATION: '{"0":{"1":4}}'}


def container(name: str, mem: object = None, core: object = None, **more: object) -> dict[str, Any]:
    limits = {key: value for key, value in ((MEM, mem), (CORE, core)) if value is not None}
    return {"name": name, "resources": {"limits": limits | {"cpu": "1"}}, **more}


def read(
    *containers: dict[str, Any],
    meta: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
) -> Pod | None:
    """The pod that the API would write so, by default with one container of 4 units."""
    text = msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "ns", "uid": "u", **(meta or {})},
            "spec": {"containers": list(containers) or [container("main", "4")], **(spec or {})},
            "status": status or {},
        }
    )
    return pod_of(msgspec.json.decode(text, type=WirePod))


def sound(*containers: dict[str, Any], **parts: Any) -> Pod:
    found = read(*containers, **parts)
    assert found is not None
    return found


def demand(*containers: dict[str, Any], **parts: Any) -> Demand:
    wanted = sound(*containers, **parts).demand
    assert isinstance(wanted, Demand), wanted.problem
    return wanted


def problem(*containers: dict[str, Any], **parts: Any) -> str:
    wanted = sound(*containers, **parts).demand
    assert isinstance(wanted, Malformed)
    return wanted.problem


def test_a_plain_pending_pod() -> None:
    found = sound()
    assert (found.uid, found.full_name) == ("u", "ns/web")
    assert demand().mem == 4
    assert (found.node, found.claim, found.nominated, found.unschedulable) == (None, None, None, None)
    assert (found.finished, found.terminating, found.priority) == (False, False, 0)


def test_the_group_of_a_pod_is_its_scheduling_group() -> None:
    assert sound(spec={"schedulingGroup": {"podGroupName": "g"}}).group == "g"
    assert sound(spec={"schedulingGroup": {}}).group == sound().group == ""


@pytest.mark.parametrize("gates", [[{"name": "kueue.x-k8s.io/admission"}], []])
def test_a_group_of_kueue_is_no_group_of_the_scheduler(gates: list[dict[str, str]]) -> None:
    """As in Kueue's KEP-976, "Plain Pods": groups of pods created beforehand (read on 2026-11-29)."""
    found = sound(
        meta={
            "labels": {
                "kueue.x-k8s.io/queue-name": "user-queue",
                "kueue.x-k8s.io/managed": "true",
                "kueue.x-k8s.io/pod-group-name": "pod-group",
            },
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"},
            "finalizers": ["kueue.x-k8s.io/managed"],
        },
        spec={"schedulingGates": gates},
    )
    assert (found.group, found.is_considered) == ("", not gates)


def test_a_pod_without_gpu_resources_is_none() -> None:
    assert read(container("main")) is None
    assert read({"name": "main"}) is None
    assert read({"name": "main", "resources": None}) is None


def test_a_pod_that_asks_for_zero_is_one() -> None:
    assert demand(container("main", "0")).mem == 0


def test_requests_without_limits_ask_for_nothing() -> None:
    assert read({"name": "main", "resources": {"requests": {MEM: "4"}}}) is None


def test_limits_may_be_numbers_or_quantities() -> None:
    assert demand(container("main", 4)).mem == 4
    assert demand(container("main", "4k")).mem == 4000


def test_all_regular_containers_count() -> None:
    assert demand(container("a", "4"), container("b", "3"), container("c")).mem == 7


def test_an_init_container_counts_only_where_it_is_the_largest() -> None:
    assert demand(spec={"initContainers": [container("init", "3")]}).mem == 4
    assert demand(spec={"initContainers": [container("init", "9")]}).mem == 9


def test_an_init_container_that_always_restarts_is_a_sidecar() -> None:
    side = container("side", "3", restartPolicy="Always")
    found = demand(spec={"initContainers": [side]})
    assert found.mem == 7
    assert [c.kind for c in found.containers] == [ContainerKind.SIDECAR, ContainerKind.MAIN]


@pytest.mark.parametrize("policy", ["Never", "OnFailure", None, "always"])
def test_other_restart_policies_make_no_sidecar(policy: str | None) -> None:
    init = container("init", "3", restartPolicy=policy)
    assert demand(spec={"initContainers": [init]}).mem == 4


def test_a_sidecar_runs_beside_the_init_containers_after_it() -> None:
    side, init = container("side", "3", restartPolicy="Always"), container("init", "6")
    assert demand(spec={"initContainers": [side, init]}).mem == 9
    assert demand(spec={"initContainers": [init, side]}).mem == 7


def test_a_pod_with_units_of_an_init_container_only_is_a_gpu_pod() -> None:
    assert demand(container("main"), spec={"initContainers": [container("init", "2")]}).mem == 2


def test_several_gpus_by_label() -> None:
    found = demand(container("main", "8"), meta={"labels": {contract.LABEL_CARDS_PER_POD: "2", "app": "x"}})
    assert (found.cards, found.per_card) == (2, Amount(4))


def test_the_error_for_an_invalid_amount_names_the_container() -> None:
    assert problem(container("main", "four")).startswith("container main: ")
    assert problem(spec={"initContainers": [container("prep", "x")]}).startswith("init container prep: ")


def test_a_placement_policy_is_read_and_an_unknown_one_is_malformed_but_still_counts() -> None:
    assert sound(meta={"annotations": {contract.ANN_PLACEMENT: "spread"}}).placement == "spread"
    unknown = {"annotations": {contract.ANN_PLACEMENT: "random"}}
    wanted = sound(meta=unknown).demand
    assert isinstance(wanted, Malformed)
    assert "annotation gpushare.io/placement='random' is not one of" in wanted.problem
    assert wanted.at_least is not None
    assert wanted.at_least.mem == 4


CHOICE = {contract.ANN_USE_MODELS: "A100", contract.ANN_OTHER_GPU: "app=web"}


def test_a_choice_of_gpus_is_a_part_of_the_demand() -> None:
    one, other = (sound(meta={"name": name, "annotations": CHOICE}).demand for name in ("one", "other"))
    assert isinstance(one, Demand)
    assert isinstance(other, Demand)
    assert one.gpus is not None
    assert one.gpus.allows("NVIDIA A100-SXM4-80GB", "GPU-a")
    assert one.gpus.other_than is not None
    assert one.gpus is other.gpus


@pytest.mark.parametrize(
    ("annotation", "value", "text"),
    [
        (contract.ANN_USE_UUIDS, "0", "annotation gpushare.io/use-gpu-uuids=0: '0' is no UUID of a GPU"),
        (contract.ANN_SAME_GPU, "itself", "annotation gpushare.io/same-gpu-as=itself is the pod itself"),
        (contract.ANN_SAME_GPU, "a=b", "annotation gpushare.io/same-gpu-as=a=b is the pod itself"),
    ],
)
def test_a_choice_that_nothing_meets_is_malformed_but_still_counts(
    annotation: str, value: str, text: str
) -> None:
    meta = {"name": "itself", "labels": {"a": "b"}, "annotations": {annotation: value}}
    wanted = sound(meta=meta).demand
    assert isinstance(wanted, Malformed)
    assert wanted.problem.startswith(text)
    assert wanted.at_least is not None
    assert wanted.at_least.mem == 4


@pytest.mark.parametrize(
    ("phase", "finished"),
    [("Pending", False), ("Running", False), ("Unknown", False), ("Succeeded", True), ("Failed", True)],
)
def test_only_two_phases_are_the_end(phase: str, finished: bool) -> None:  # noqa: FBT001 - a table
    assert sound(status={"phase": phase}).finished is finished


def test_a_deletion_timestamp_is_terminating() -> None:
    assert sound(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}).terminating


def test_priority_and_nomination() -> None:
    found = sound(spec={"priority": 1000}, status={"nominatedNodeName": "n"})
    assert (found.priority, found.nominated) == (1000, "n")
    assert sound(status={"nominatedNodeName": ""}).nominated is None


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}, "0/3 nodes"),
        ({"type": "PodScheduled", "status": "False"}, ""),
        ({"type": "PodScheduled", "status": "True"}, None),
        ({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}, "0/3"),
        ({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "gates"}, None),
        ({"type": "Ready", "status": "False", "message": "no"}, None),
    ],
)
def test_the_reason_of_the_scheduler_for_an_unscheduled_pod(
    condition: dict[str, str], expected: str | None
) -> None:
    assert (
        sound(status={"conditions": [{"type": "Initialized", "status": "True"}, condition]}).unschedulable
        == expected
    )


def test_a_pod_with_scheduling_gates_is_gated() -> None:
    assert sound(spec={"schedulingGates": [{"name": "quota"}]}).gated
    assert not sound(spec={"schedulingGates": []}).gated
    assert not sound(spec={"schedulingGates": None}).gated


CARD_1: Shares = ((1, Amount(4)),)


def test_a_bound_pods_annotations_are_its_claim() -> None:
    assert sound(meta={"annotations": CLAIM}, spec={"nodeName": "n"}).claim == CARD_1


@pytest.mark.parametrize("spec", [{}, {"nodeName": ""}, {"nodeName": None}])
def test_an_unbound_pod_claims_nothing_with_any_annotations(spec: dict[str, Any]) -> None:
    found = sound(meta={"annotations": CLAIM}, spec=spec)
    assert (found.node, found.claim) == (None, None)


@pytest.mark.parametrize(
    "edit",
    [
        {contract.ANN_IDX: "x"},
        {contract.ANN_IDX: "0"},
        {contract.ANN_POD: "1"},
        {contract.ANN_ALLOCATION: '{"0":{"1":1}}'},
        {contract.ANN_ALLOCATION: "junk"},
    ],
)
def test_an_inconsistent_claim_is_void(edit: dict[str, str]) -> None:
    assert sound(meta={"annotations": CLAIM | edit}, spec={"nodeName": "n"}).claim is None


def test_a_malformed_pod_claims_nothing() -> None:
    assert sound(container("main", "-4"), meta={"annotations": CLAIM}, spec={"nodeName": "n"}).claim is None


def test_seal_and_time_of_creation_are_read() -> None:
    meta = {"annotations": {contract.ANN_SEAL: "abc"}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    found = sound(meta=meta)
    assert (found.seal, found.created) == ("abc", "2026-01-01T00:00:00Z")
    assert (sound().seal, sound().created) == (None, "")


@pytest.mark.parametrize(
    ("text", "mode"),
    [("share", Mode.SHARE), ("cgpu", Mode.CGPU), ("default", None), ("odd", None), ("", None)],
)
def test_the_mode_at_the_time_of_the_bind_is_read(text: str, mode: Mode | None) -> None:
    meta = {"annotations": {**CLAIM, contract.ANN_MODE: text}}
    assert sound(meta=meta, spec={"nodeName": "n"}).mode is mode


@pytest.mark.parametrize(
    ("annotations", "spec"),
    [({}, {"nodeName": "n"}), ({contract.ANN_IDX: "x"}, {"nodeName": "n"}), (CLAIM, {})],
)
def test_a_mode_without_a_claim_is_none(annotations: dict[str, str], spec: dict[str, str]) -> None:
    assert sound(meta={"annotations": {**annotations, contract.ANN_MODE: "share"}}, spec=spec).mode is None


def test_a_container_runs_as_its_own_user_else_as_its_pods() -> None:
    own = {"securityContext": {"runAsUser": 0}}
    spec = {"securityContext": {"runAsUser": 1000}}
    found = demand(container("a", "2", **own), container("b", "2"), container("c"), spec=spec)
    assert [each.user for each in found.containers] == [0, 1000, 1000]
    assert found.users == {0, 1000}


@pytest.mark.parametrize("security", [None, {}, {"runAsUser": None}, {"runAsNonRoot": True}])
def test_without_a_user_the_image_decides(security: Any) -> None:
    assert demand(spec={"securityContext": security}).users == {None}
    assert demand(container("a", "2", securityContext=security)).users == {None}


def test_init_containers_and_sidecars_have_users_too() -> None:
    side = container("side", "1", restartPolicy="Always", securityContext={"runAsUser": 7})
    spec = {"initContainers": [container("first", "2"), side], "securityContext": {"runAsUser": 1000}}
    assert demand(spec=spec).users == {7, 1000}


@pytest.mark.parametrize(("host_users", "users"), [(False, {None}), (True, {1000}), (None, {1000})])
def test_in_a_user_namespace_the_user_on_the_node_is_not_known(
    host_users: bool | None,  # noqa: FBT001 - a table
    users: set[int | None],
) -> None:
    assert demand(spec={"securityContext": {"runAsUser": 1000}, "hostUsers": host_users}).users == users


def test_nulls_count_as_absent() -> None:
    meta = {"annotations": None, "labels": None, "deletionTimestamp": None}
    found = sound(meta=meta, spec={"initContainers": None, "priority": None}, status={"conditions": None})
    assert found == sound()


def test_equal_labels_of_pods_are_one_object() -> None:
    first, second = (sound(meta={"uid": uid, "labels": {"app": "db", "hash": "x"}}) for uid in ("a", "b"))
    assert first.labels == (("app", "db"), ("hash", "x"))
    assert first.labels is second.labels


def owned(kind: str, *, controller: bool | None = True) -> dict[str, Any]:
    """Metadata of a pod with an owner."""
    return {"ownerReferences": [{"kind": kind, "uid": "o", "name": "o", "controller": controller}]}


@pytest.mark.parametrize(
    ("meta", "workload"),
    [
        (owned("ReplicaSet"), "o"),
        (owned("StatefulSet"), "o"),
        (owned("Rollout"), "o"),
        (owned("ReplicaSet", controller=None), ""),
        (owned("Job"), ""),
        (owned("DaemonSet"), ""),
        ({"ownerReferences": None}, ""),
        ({}, ""),
    ],
)
def test_the_workload_is_the_controller_that_replaces_a_failed_pod_at_once(
    meta: dict[str, Any], workload: str
) -> None:
    assert sound(container("a", "4"), meta=meta).workload == workload


@pytest.mark.parametrize(
    ("status", "rejected"),
    [
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "why"}, "why"),
        ({"phase": "Failed", "reason": "OutOfcpu"}, "OutOfcpu"),
        ({"phase": "Failed", "reason": "TopologyAffinityError", "message": 600 * "x"}, 500 * "x"),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, None),
        ({"phase": "Failed"}, None),
        ({"phase": "Running", "reason": "UnexpectedAdmissionError"}, None),
    ],
)
def test_a_pod_that_its_kubelet_did_not_admit_was_rejected(
    status: dict[str, Any], rejected: str | None
) -> None:
    at = "2026-11-27T00:00:00Z"
    found = sound(container("a", "4"), status={**status, "startTime": at})
    assert (found.rejected, found.rejected_at) == (rejected, at if rejected else "")


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared"])
def test_units_and_whole_gpus_in_one_container_are_malformed(resource: str) -> None:
    both = container("main", "4")
    both["resources"]["limits"][resource] = "1"
    text = "container main: requests aliyun.com/gpu-mem and nvidia.com/gpu: a container gets a part of a GPU"
    assert text in problem(both)
    both["resources"]["limits"][resource] = "0"
    assert demand(both).mem == 4
    whole = container("whole")
    whole["resources"]["limits"][resource] = "1"
    assert demand(container("main", "4"), whole).mem == 4
