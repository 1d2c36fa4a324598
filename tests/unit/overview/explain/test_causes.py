"""Pods that wait for another reason than GPUs: the first line, and what to do."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gpushare.adapters.kube.wire import any_pod_of, pod_of
from gpushare.cli.explain.render import text
from gpushare.contract import RESOURCE_COUNT, RESOURCE_MEM
from gpushare.model.modes import CGPU_PODS
from gpushare.overview.explain.answer import Answer, PodFacts, PodState, answer
from gpushare.overview.ledger_inputs import node_of
from gpushare.overview.objects import ClusterNode, ClusterPod, PodToleration, Taint
from gpushare.overview.occupancy import load_of
from gpushare.overview.storage import Claim, Storage, StorageClass, Volume
from gpushare.overview.surroundings import Gang, surroundings_of
from gpushare.scheduling.snapshot import books_of

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
ROOM = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}
SEEN = [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]


def gpu_node(
    name: str = "n",
    *,
    offers: Json | None = None,
    labels: dict[str, str] | None = None,
    taints: tuple[str, ...] = (),
    cordoned: bool = False,
) -> Json:
    """A node with two GPUs of 14 units, 8 CPUs and 32 GiB; taints as ``key=value:Effect``."""
    amounts = {RESOURCE_MEM: "28", RESOURCE_COUNT: "2"} | ROOM | (offers or {})
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"unschedulable": cordoned, "taints": [_taint(each) for each in taints]},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _taint(text: str) -> Json:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def pod(
    name: str = "p",
    units: object = 4,
    *,
    on: str | None = None,
    labels: dict[str, str] | None = None,
    asks: Json | None = None,
    ports: tuple[int, ...] = (),
    seen: bool = True,
    **spec: Any,
) -> Json:
    """A pod with one container; ``asks`` are other requests."""
    own = {RESOURCE_MEM: str(units)} if units else {}
    resources = {"limits": own | (asks or {}), "requests": own | (asks or {})}
    container = {"name": "main", "resources": resources, "ports": [{"hostPort": each} for each in ports]}
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": name, "labels": labels or {}},
        "spec": {"containers": [container], "nodeName": on, **spec},
        "status": {"phase": "Pending", "conditions": SEEN if seen else []},
    }


def explained(
    who: Json,
    *nodes: Json,
    bound: tuple[Json, ...] = (),
    storage: Storage | None = None,
    gang: Gang | None = None,
) -> Answer:
    details = msgspec.convert(who, ClusterPod)
    found = {each["metadata"]["name"]: msgspec.convert(each, ClusterNode) for each in nodes or [gpu_node()]}
    pods = [msgspec.convert(each, ClusterPod) for each in bound]
    books = books_of(
        [node_of(each, CGPU_PODS) for each in found.values()], filter(None, map(pod_of, [details, *pods])), {}
    )
    made = surroundings_of(filter(None, map(load_of, pods)), [details])
    around = replace(made, storage=storage, gang=gang)
    return answer(PodFacts(any_pod_of(details), details, books, found, around=around))


def required(*expressions: Json) -> Json:
    terms = [{"matchExpressions": list(expressions)}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def near(topology: str = "kubernetes.io/hostname", **labels: str) -> Json:
    term = {"topologyKey": topology, "labelSelector": {"matchLabels": labels}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


@pytest.mark.parametrize(
    ("who", "nodes", "first_line", "remedy"),
    [
        pytest.param(
            pod(asks={"cpu": "40"}),
            [gpu_node()],
            "it requests 40 CPUs, and node n has 8 free",
            "add a node with free GPUs and 40 CPUs: node n has 8 in all",
            id="more CPU than any node has",
        ),
        pytest.param(
            pod(asks={"cpu": "9"}),
            [gpu_node(), gpu_node("m", offers={"cpu": "7500m"})],
            "it requests 9 CPUs, and nodes m and n have at most 8 free",
            "request at most 8 CPUs: node n has them free",
            id="a little more CPU",
        ),
        pytest.param(
            pod(asks={"memory": "64Gi"}),
            [gpu_node()],
            "it requests 64 GiB of memory, and node n has 32 GiB free",
            "add a node with free GPUs and 64 GiB of memory: node n has 32 GiB in all",
            id="memory",
        ),
        pytest.param(
            pod(asks={"rdma/hca": "1"}),
            [gpu_node()],
            "it requests 1 of rdma/hca, and node n offers none",
            "add a node with free GPUs that offers rdma/hca, or remove rdma/hca from the pod",
            id="a resource that no node offers",
        ),
        pytest.param(
            pod(asks={"nvidia.com/gpumem": "3000"}),
            [gpu_node()],
            "it requests 3000 of nvidia.com/gpumem, and node n offers none",
            "remove nvidia.com/gpumem from the pod (nvidia.com/gpumem is a name of HAMi, in MiB: here write "
            "aliyun.com/gpu-mem: 3)",
            id="a resource of HAMi beside ours",
        ),
        pytest.param(
            pod(nodeSelector={ZONE: "a"}),
            [gpu_node(labels={ZONE: "b"})],
            f"it selects nodes with {ZONE}=a, and node n has {ZONE}=b",
            f"write {ZONE}: b instead of a in the nodeSelector of the pod: node n has it",
            id="another value of the label",
        ),
        pytest.param(
            pod(nodeSelector={"disk": "ssd"}),
            [gpu_node()],
            "it selects nodes with disk=ssd, and node n has no label disk",
            "remove disk from the nodeSelector of the pod, or label node n with it",
            id="no such label",
        ),
        pytest.param(
            pod(affinity={"nodeAffinity": required(SSD)}),
            [gpu_node()],
            "its node affinity requires disk In (ssd), which node n does not meet",
            "change the node affinity of the pod so that it admits node n, or label that node",
            id="node affinity",
        ),
        pytest.param(
            pod(),
            [gpu_node(taints=("team=a:NoSchedule",))],
            "it does not tolerate the taint team=a:NoSchedule of node n",
            "add {key: team, operator: Equal, value: a, effect: NoSchedule} to the tolerations of the pod, "
            "or remove the taint of node n",
            id="taint",
        ),
        pytest.param(
            pod(),
            [gpu_node(taints=("node.kubernetes.io/not-ready:NoSchedule",))],
            "it does not tolerate the taint node.kubernetes.io/not-ready:NoSchedule of node n",
            "wait until node n has recovered: Kubernetes removes node.kubernetes.io/not-ready then",
            id="a node that is not ready",
        ),
        pytest.param(
            pod(),
            [gpu_node(cordoned=True)],
            "node n is cordoned",
            "uncordon node n",
            id="cordoned",
        ),
        pytest.param(
            pod(),
            [gpu_node(offers={"pods": "0"})],
            "node n has as many pods as the kubelet takes (0)",
            "delete pods of node n, or raise maxPods of its kubelet (0)",
            id="too many pods",
        ),
        pytest.param(
            pod(affinity={"podAffinity": near(app="cache")}),
            [gpu_node()],
            "node n has no pods with app=cache in its kubernetes.io/hostname, "
            "which its pod affinity requires",
            "relax that rule of the pods, or free GPUs on another node than n",
            id="pod affinity",
        ),
    ],
)
def test_the_first_line_names_the_cause_and_the_remedy_fits_it(
    who: Json, nodes: list[Json], first_line: str, remedy: str
) -> None:
    found = explained(who, *nodes)
    assert found.state is PodState.OTHER
    assert found.summary == first_line
    assert found.remedies[0].text == remedy
    assert "GPUs are not the cause: 4 units of aliyun.com/gpu-mem fit on" in found.details[0]
    assert "fits on GPU" not in text(found)


def test_bound_pods_count_whether_or_not_they_have_gpus() -> None:
    found = explained(pod(asks={"cpu": "4"}), bound=(pod("b", 0, on="n", asks={"cpu": "5500m"}),))
    assert found.summary == "it requests 4 CPUs, and node n has 2.5 free"
    assert found.remedies[0].text == "free 1.5 CPUs on node n, or add a node with 4 CPUs free"


def test_the_host_port_of_another_pod() -> None:
    found = explained(pod(ports=(8080,)), bound=(pod("b", 0, on="n", ports=(8080,)),))
    assert found.summary == "its host port 8080/TCP is in use on node n"


def test_anti_affinity_counts_in_both_directions() -> None:
    rule = {"podAntiAffinity": near(app="web")}
    own = explained(pod(affinity=rule), bound=(pod("b", 1, on="n", labels={"app": "web"}),))
    assert own.summary == (
        "node n has pods with app=web in its kubernetes.io/hostname, which its anti-affinity excludes"
    )
    other = explained(pod(labels={"app": "web"}), bound=(pod("b", 1, on="n", affinity=rule),))
    assert other.summary == "node n has pods near it whose anti-affinity excludes this pod"


def test_a_pod_that_is_attracted_by_itself_may_be_the_first() -> None:
    rule = {"podAffinity": near(app="web")}
    assert "has free units" in explained(pod(labels={"app": "web"}, affinity=rule)).summary


def test_topology_spread_counts_the_pods_of_each_domain() -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    nodes = gpu_node("n", labels={ZONE: "a"}), gpu_node("m", labels={ZONE: "b"}, taints=("x:NoSchedule",))
    bound = (pod("b", 1, on="n", labels={"app": "web"}),)
    found = explained(pod(labels={"app": "web"}, topologySpreadConstraints=[spread]), *nodes, bound=bound)
    assert "it does not tolerate the taint x:NoSchedule of node m" in (found.summary, *found.details)
    assert any("maxSkew=1 of its topology spread" in each for each in (found.summary, *found.details))


def test_nodes_with_the_same_obstacles_are_one_line_and_one_remedy() -> None:
    many = [gpu_node(f"n{index}", taints=("team=a:NoSchedule",)) for index in range(6)]
    found = explained(pod(), *many, gpu_node("z", cordoned=True))
    assert found.summary == "it does not tolerate the taint team=a:NoSchedule of nodes n0, n1, n2 and 3 more"
    assert found.details[:2] == (
        "node z is cordoned",
        "GPUs are not the cause: 4 units of aliyun.com/gpu-mem fit on 7 nodes (14 GPUs)",
    )
    assert len(found.remedies) == 2


def test_one_remedy_clears_all_obstacles_of_a_node() -> None:
    found = explained(pod(nodeSelector={"disk": "ssd"}), gpu_node(cordoned=True))
    assert found.summary == "node n is cordoned; it selects nodes with disk=ssd, and node n has no label disk"
    (remedy,) = found.remedies
    assert remedy.text.startswith("uncordon node n; and remove disk from the nodeSelector")
    assert remedy.command == "kubectl uncordon n && kubectl label node n disk=ssd"


def test_units_that_are_free_only_where_the_pod_may_not_go() -> None:
    full = (pod("a", 14, on="n"), pod("b", 14, on="n"))
    found = explained(pod(), gpu_node(), gpu_node("m", taints=("team=a:NoSchedule",)), bound=full)
    assert found.state is PodState.NO_GPU
    assert (
        found.summary
        == "it requests 4 units of aliyun.com/gpu-mem on one GPU, and no node that it may use has them"
    )
    assert found.details == (
        "it would fit elsewhere, but it does not tolerate the taint team=a:NoSchedule of node m",
    )
    assert found.remedies[-1].kind == "taint"


@pytest.mark.parametrize(
    ("storage", "first_line"),
    [
        (
            {"claims": {"dat": Claim()}},
            "it mounts PersistentVolumeClaim data, which does not exist in namespace ml (did you mean dat?)",
        ),
        (
            {"claims": {"data": {"status": {"phase": "Lost"}, "spec": {"volumeName": "v"}}}},
            "the volume v of its claim data no longer exists",
        ),
        (
            {"claims": {"data": {"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Bound"}}}},
            "its claim data is being deleted",
        ),
        (
            {"claims": {"data": {"spec": {"storageClassName": "fast"}}}, "classes": {}},
            "its claim data has no volume: there is no StorageClass fast",
        ),
        (
            {"claims": {"data": {"spec": {"storageClassName": "fast"}}}, "classes": {"fast": {}}},
            "its claim data has no volume yet, and its StorageClass makes one before a pod uses it",
        ),
        (
            {
                "claims": {"data": {"spec": {"storageClassName": "local"}}},
                "classes": {"local": {"provisioner": "kubernetes.io/no-provisioner"}},
            },
            "its claim data has no volume, and its StorageClass local makes none",
        ),
        (
            {
                "claims": {"data": {"status": {"phase": "Bound"}, "spec": {"volumeName": "v"}}},
                "volumes": {
                    "v": {
                        "spec": {
                            "nodeAffinity": {
                                "required": {
                                    "nodeSelectorTerms": [
                                        {
                                            "matchExpressions": [
                                                {"key": ZONE, "operator": "In", "values": ["a"]}
                                            ]
                                        }
                                    ]
                                }
                            }
                        }
                    }
                },
            },
            f"the volume of its claim data needs {ZONE} In (a), and it fits on node n only",
        ),
        (
            {
                "claims": {"data": {"status": {"phase": "Bound"}, "spec": {"volumeName": "v"}}},
                "volumes": {"v": {"metadata": {"labels": {ZONE: "a__c"}}}},
            },
            f"the volume of its claim data needs {ZONE} In (a, c), and it fits on node n only",
        ),
    ],
)
def test_volumes(storage: Json, first_line: str) -> None:
    read = Storage(
        {
            name: msgspec.convert(each, Claim, from_attributes=True)
            for name, each in storage["claims"].items()
        },
        {name: msgspec.convert(each, Volume) for name, each in storage.get("volumes", {}).items()},
        {name: msgspec.convert(each, StorageClass) for name, each in storage.get("classes", {}).items()},
    )
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    found = explained(pod(volumes=volumes), gpu_node(labels={ZONE: "b"}), storage=read)
    assert found.summary == first_line
    assert found.remedies


def test_a_claim_that_waits_for_the_pod_is_no_obstacle() -> None:
    late = StorageClass(volume_binding_mode="WaitForFirstConsumer")
    claim = msgspec.convert({"spec": {"storageClassName": "late"}}, Claim)
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    found = explained(pod(volumes=volumes), storage=Storage({"data": claim}, {}, {"late": late}))
    assert "has free units" in found.summary


def test_a_scheduler_that_nobody_runs() -> None:
    found = explained(pod(seen=False, schedulerName="mine"), bound=(pod("b", 1, on="n"),))
    assert found.summary == "no scheduler named mine has reported on it, nor placed any pod of this cluster"
    assert (
        found.remedies[0].text
        == "write schedulerName: default-scheduler in the pod, or start the scheduler mine"
    )


@pytest.mark.parametrize("on", ["n", None])
def test_a_scheduler_that_does_not_ask_the_extender_although_another_does(on: str | None) -> None:
    placed = pod("b", 1, on="n", schedulerName="gpushare-scheduler")
    placed["metadata"]["annotations"] = {"ALIYUN_COM_GPU_MEM_IDX": "0", "ALIYUN_COM_GPU_MEM_POD": "1"}
    found = explained(pod(on=on), bound=(placed,))
    assert found.details[0] == (
        "default-scheduler has placed no pod by the extender: if it does not ask the extender, write "
        "schedulerName: gpushare-scheduler in the pod"
    )


@pytest.mark.parametrize(
    ("gang", "first_line"),
    [
        (Gang("g", 4, 2), "its PodGroup g waits for 4 pods, and 2 exist"),
        (Gang("g", None, 1), "its PodGroup g does not exist, so no scheduler considers it"),
    ],
)
def test_a_gang_that_is_not_complete(gang: Gang, first_line: str) -> None:
    assert explained(pod(), gang=gang).summary == first_line


def test_a_pod_that_fits_waits_for_the_others_of_its_group() -> None:
    found = explained(pod(), gang=Gang("g", 2, 2))
    assert found.summary.startswith("node n has free units for it")
    assert found.details[0] == (
        "it waits until at least 2 pods of its PodGroup g fit together: kubectl gpushare explain says what "
        "the others lack"
    )


def test_the_gate_of_kueue_has_a_way_out() -> None:
    found = explained(pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]))
    assert found.state is PodState.GATED
    assert found.details == (
        "Kueue removes its gate once the queue of the pod has quota: kubectl get workloads -n ml",
    )


def test_whole_gpus_beside_units_must_go() -> None:
    found = explained(pod(asks={"nvidia.com/gpu": "1"}))
    assert found.state is PodState.MALFORMED
    assert found.remedies[0].text == (
        "remove nvidia.com/gpu from container main: aliyun.com/gpu-mem alone gives it a part of a GPU, and "
        "nodes that share their GPUs offer no whole ones"
    )


def test_a_whole_gpu_in_another_container_must_go_too() -> None:
    who = pod()
    who["spec"]["containers"].append({"name": "b", "resources": {"requests": {"nvidia.com/gpu": "1"}}})
    found = explained(who)
    assert found.summary == "it requests 1 of nvidia.com/gpu, and node n offers none"
    assert found.remedies[0].text.startswith("remove nvidia.com/gpu from the pod: aliyun.com/gpu-mem alone")


@pytest.mark.parametrize(
    ("name", "hint", "instead"),
    [
        ("aliyun.com/gpu-memory", "did you mean aliyun.com/gpu-mem?", "aliyun.com/gpu-mem"),
        ("aliyun.com/gpumem", "did you mean aliyun.com/gpu-mem?", "aliyun.com/gpu-mem"),
        ("aliyun.com/gpu-cores", "did you mean aliyun.com/gpu-core", "aliyun.com/gpu-core.percentage"),
        ("aliyun.com/gpu-count", "cannot be requested", "the pod label aliyun.com/gpu-count"),
        ("nvidia.com/gpumem", "a name of HAMi, in MiB: here write", "aliyun.com/gpu-mem: 3"),
        ("nvidia.com/gpucores", "a name of HAMi, in percent", "aliyun.com/gpu-core.percentage"),
    ],
)
def test_similar_names_of_resources(name: str, hint: str, instead: str) -> None:
    found = explained(pod(units=None, asks={name: "3000"}))
    assert found.state is PodState.UNMANAGED
    assert hint in found.summary
    assert found.remedies[0].text == f"write {instead} instead of {name} in container main"


def test_a_pod_that_has_nothing_to_do_with_gpus() -> None:
    found = explained(pod(units=None, asks={"cpu": "1"}))
    assert found.summary == "it requests no aliyun.com/gpu-mem, so gpushare does not place it"
    assert not found.remedies


def test_an_amount_with_a_suffix_has_one_remedy_which_is_not_absurd() -> None:
    found = explained(pod(units="4Gi"))
    assert found.state is PodState.MALFORMED
    assert found.summary == "aliyun.com/gpu-mem counts GiB by default: write 4, not 4Gi"
    assert [each.units for each in found.remedies] == [None]


@pytest.mark.parametrize(("operator", "tolerated"), [("Gt", True), ("Lt", False)])
def test_a_toleration_of_numbers_compares_them(operator: str, *, tolerated: bool) -> None:
    toleration = PodToleration("sla", operator, "900")
    assert toleration.tolerates(Taint("sla", "950", "NoSchedule")) is tolerated
    assert not toleration.tolerates(Taint("sla", "high", "NoSchedule"))
