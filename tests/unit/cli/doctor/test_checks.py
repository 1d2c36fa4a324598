"""Every check: the healthy case, and each failure."""

from dataclasses import replace
from typing import Any

import pytest

from gpushare.cli.doctor.checks import CHECKS, examine, is_healthy
from gpushare.cli.doctor.installation import Installation, Unread
from gpushare.cli.doctor.verdict import CheckVerdict, Status
from gpushare.contract import (
    AGENT_NAME,
    ANN_CARDS,
    ANN_CLOSED,
    ANN_CORDONED_CARDS,
    ANN_DEVICE_LIST,
    EXPORTER_NAME,
    EXTENDER_NAME,
    ISOLATION_INSTALLER_NAME,
    LABEL_MODE,
    LABEL_NO_ISOLATION,
    MPS_NAME,
)
from gpushare.model.objects import Pod
from gpushare.scheduling.snapshot import books_of
from tests.support.builders.diagnosis import (
    ABSENT,
    AGENT_PAGE,
    DENIED,
    EXPORTER_PAGE,
    EXTENDER_PAGE,
    NOW_S,
    PAGES,
    api_service,
    changed,
    config_map,
    extender_pod,
    gpu,
    gpu_node,
    healthy,
    kube_proxy,
    lease,
    node_port,
    our_pods,
    pending_extender,
    replicas,
    sample,
    scheduler_config,
    scheduler_pod,
    system_pod,
)
from tests.support.builders.scheduling import node, pod

FAILED, WARNING, UNKNOWN, OK = Status.FAILED, Status.WARNING, Status.UNKNOWN, Status.OK
LOOPBACK_NODE_PORT = scheduler_config("http://127.0.0.1:32766/gpushare-scheduler")
PENDING: list[tuple[Pod, Any]] = [(pod("p", 4), {})]


def verdict(name: str, found: Installation) -> CheckVerdict:
    return next(check for check in CHECKS if check.name == name).run(found)


def with_page(component: str, page: tuple[Any, ...], **changes: Any) -> Installation:
    return healthy(pages=PAGES | {component: page}, **changes)


def extender_reports(*samples: Any, **changes: Any) -> Installation:
    return with_page(EXTENDER_NAME, changed(EXTENDER_PAGE, *samples), **changes)


def agent_reports(*samples: Any) -> Installation:
    return with_page(AGENT_NAME, changed(AGENT_PAGE, *samples))


def without(component: str) -> Installation:
    return healthy(system_pods=[each for each in our_pods() if each.component != component])


def with_pods(*more: Any) -> Installation:
    return healthy(system_pods=[*our_pods(), *more])


def extenders(*pods: Any, **changes: Any) -> Installation:
    others = [each for each in our_pods() if each.component != EXTENDER_NAME]
    return healthy(system_pods=[*others, *pods], **changes)


def scheduler(*words: str, maps: bool = True, **changes: Any) -> Installation:
    others = [each for each in our_pods() if each.component != "kube-scheduler"]
    return healthy(system_pods=[*others, scheduler_pod(*words, maps=maps)], **changes)


def mode_node(mode: str, *true: str) -> Installation:
    """A node with this mode, and labels that are true."""
    return healthy([gpu_node(labels={LABEL_MODE: mode, **dict.fromkeys(true, "true")})])


def configured(*config_maps: Any, **changes: Any) -> Installation:
    return healthy(config_maps=list(config_maps), **changes)


def listed_as_unhealthy(node: str = "gpu-1", **data: str) -> Installation:
    """The data of the ConfigMap with the unhealthy GPUs of a node."""
    return configured(config_map(f"unhealthy-gpu-{node}", **data))


def shares_no_more(*pods: Pod, **node: Any) -> Installation:
    """A node that does not share, with pods."""
    return healthy([gpu_node(labels={"cgpu": "false"}, **node)], pods=[(each, {}) for each in pods])


def crowded() -> Installation:
    pods = [pod("a", 10, at="gpu-1", card=0), pod("b", 10, at="gpu-1", card=0)]
    return healthy(pods=[(each, {}) for each in pods])


def broken_runtime() -> Installation:
    message = "failed to create shim: unresolvable CDI devices nvidia.com/gpu=0"
    waiting = {"waiting": {"reason": "CreateContainerError", "message": message}}
    details = {"status": {"containerStatuses": [{"name": "main", "state": waiting}]}}
    return healthy(pods=[(pod("p", 4, at="gpu-1", card=0), details)])


def cdi(kubelet: str) -> Installation:
    agent = system_pod(AGENT_NAME, "--device-list-strategy=cdi")
    others = [each for each in our_pods() if each.component != AGENT_NAME]
    return healthy([gpu_node(kubelet=kubelet)], system_pods=[*others, agent])


def device_lists(*texts: str) -> list[dict[str, Any]]:
    """Nodes with what their agents have published, gpu-1 and on."""
    names = (f"gpu-{number}" for number in range(1, len(texts) + 1))
    return [
        gpu_node(name, annotations={ANN_DEVICE_LIST: text}) for name, text in zip(names, texts, strict=True)
    ]


def running_pod() -> Installation:
    return healthy(pods=[(pod("p", 4, at="gpu-1", card=0), {"status": {"phase": "Running"}})])


def denied_right() -> Installation:
    found = healthy()
    return replace(found, reviews={**found.reviews, (EXTENDER_NAME, "create pods/binding"): False})


def denied_eviction(*words: str) -> Installation:
    found = extenders(extender_pod("gpushare", "extender", *words))
    return replace(found, reviews={**found.reviews, (EXTENDER_NAME, "create pods/eviction"): False})


def without_lease(leads: int = 1, denied: str = "update leases", **changes: Any) -> Installation:
    """An extender whose account may not use its Lease, and which binds without it if it leads."""
    page = (
        sample("gpushare_extender_leader", leads),
        sample("gpushare_extender_degraded_mode", 1, right="leases"),
    )
    found = extender_reports(*page, **changes)
    return replace(found, reviews={**found.reviews, (EXTENDER_NAME, denied): False})


CASES: list[tuple[str, Installation, Status, str]] = [
    ("api-server", healthy(version="v1.10.0"), FAILED, "1.16 or later"),
    ("api-server", healthy(version=DENIED), UNKNOWN, "forbidden"),
    ("scheduler-config", healthy(), OK, "calls http://127.0.0.1:12345"),
    ("scheduler-config", without("kube-scheduler"), UNKNOWN, "managed control plane"),
    ("scheduler-config", scheduler("--v=2"), FAILED, "neither --config nor --policy-config-file"),
    ("scheduler-config", scheduler("--config=/x/y.yaml", maps=False), UNKNOWN, "cannot be read from here"),
    ("scheduler-config", scheduler("--config=/etc/kubernetes/gpushare/c.json", maps=False), OK, "installed"),
    ("scheduler-config", configured(config_map("config", **{"config.yaml": "{}"})), FAILED, "no ext"),
    ("scheduler-config", configured(config_map("config", **{"config.yaml": "}"})), UNKNOWN, "read"),
    ("scheduler-config", configured(scheduler_config(managedResources=[])), FAILED, "not for"),
    ("scheduler-config", configured(scheduler_config(ignorable=True)), FAILED, "ignores"),
    (
        "scheduler-config",
        configured(scheduler_config(managedResources=[{"name": "aliyun.com/gpu-mem"}])),
        WARNING,
        "gpu-core.percentage",
    ),
    ("extender-address", healthy(), OK, "http://127.0.0.1:12345"),
    ("extender-address", configured(LOOPBACK_NODE_PORT), FAILED, "no Service"),
    (
        "extender-address",
        configured(LOOPBACK_NODE_PORT, kube_proxy("mode: nftables"), services=[node_port()]),
        FAILED,
        "32766/gpushare-scheduler answers nothing: kube-proxy serves node ports on loopback in mode iptables",
    ),
    (
        "extender-address",
        configured(
            LOOPBACK_NODE_PORT, kube_proxy("iptables: {localhostNodePorts: false}"), services=[node_port()]
        ),
        FAILED,
        "localhostNodePorts",
    ),
    (
        "extender-address",
        configured(LOOPBACK_NODE_PORT, kube_proxy("mode: ''"), services=[node_port()]),
        OK,
        "32766",
    ),
    ("extender-address", configured(LOOPBACK_NODE_PORT, services=DENIED), UNKNOWN, "forbidden"),
    (
        "extender-address",
        scheduler("--config=/x", config_maps=[kube_proxy("mode: ipvs")], services=[node_port()]),
        WARNING,
        "if the scheduler is configured as documented",
    ),
    ("extender-address", healthy(config_maps=[]), UNKNOWN, "cannot be read"),
    ("extender-calls", healthy(), OK, "3 filter calls"),
    (
        "extender-calls",
        extender_reports(sample("gpushare_extender_requests_total", 0, verb="filter"), pods=PENDING),
        FAILED,
        "no scheduler has called the extender",
    ),
    ("extender-calls", extender_reports(sample("gpushare_extender_requests_total", 0)), UNKNOWN, "no pod"),
    ("extender-calls", with_page(EXTENDER_NAME, DENIED), UNKNOWN, "needs the right to list pods"),  # type: ignore[arg-type]
    ("extender-pods", healthy(), OK, "1 replica ready"),
    ("extender-pods", extenders(extender_pod(ready=False)), FAILED, "none of 1 replica"),
    ("extender-pods", extenders(), FAILED, "none of 1 replica"),
    ("extender-pods", extenders(deployments=[]), FAILED, "no pod of gpushare-schd-extender: deploy"),
    ("extender-pods", healthy(deployments=[replicas(2)]), WARNING, "1 of 2 replicas"),
    (
        "extender-pods",
        extenders(pending_extender("0/2 nodes are available")),
        FAILED,
        "is Pending: 0/2 nodes are available",
    ),
    (
        "extender-pods",
        extenders(
            extender_pod(),
            pending_extender("0/1 nodes are available", "second"),
            deployments=[replicas(2)],
        ),
        WARNING,
        "1 of 2 replicas are ready; second is Pending: 0/1 nodes are available",
    ),
    ("extender-lease", healthy(), OK, "held by a"),
    ("extender-lease", healthy(lease=ABSENT), FAILED, "no Lease"),
    ("extender-lease", healthy(lease=DENIED), UNKNOWN, "needs the right"),
    ("extender-lease", healthy(lease=lease("")), FAILED, "no replica holds"),
    ("extender-lease", healthy(lease=lease(renewed="x")), FAILED, "no time of renewal"),
    ("extender-lease", healthy(now_s=NOW_S + 60), FAILED, "has not renewed the Lease for 60 s"),
    ("extender-lease", without_lease(lease=ABSENT), WARNING, "gpushare-schd-extender binds without a Lease"),
    ("extender-lease", without_lease(now_s=NOW_S + 60), WARNING, "run one replica only"),
    ("extender-lease", without_lease(leads=0, lease=ABSENT), FAILED, "no Lease"),
    ("extender-lease", healthy(lease=ABSENT, pages={EXTENDER_NAME: DENIED}), UNKNOWN, "needs the right"),
    ("extender-leader", extender_reports(sample("gpushare_extender_leader", 0)), FAILED, "no replica leads"),
    (
        "extender-leader",
        extenders(
            extender_pod(),
            extender_pod(name="b"),
            pages=PAGES | {"b": EXTENDER_PAGE},
        ),
        FAILED,
        "several replicas",
    ),
    (
        "extender-caches",
        extender_reports(sample("gpushare_extender_cache_synced", 0, resource="pods")),
        FAILED,
        "pods in gpushare-schd-extender",
    ),
    (
        "extender-degraded",
        extender_reports(sample("gpushare_extender_degraded_mode", 1, right="events")),
        WARNING,
        "events",
    ),
    ("tls", healthy(), OK, "expires in 40 days"),
    ("tls", healthy(now_s=NOW_S + 30 * 86_400), WARNING, "expires in 10 days"),
    ("tls", healthy(now_s=NOW_S + 41 * 86_400), FAILED, "has expired"),
    ("tls", extenders(extender_pod("gpushare", "extender")), WARNING, "plain HTTP on the network"),
    (
        "tls",
        extenders(extender_pod("gpushare", "extender", "--host=127.0.0.1"), pages={}),
        OK,
        "plain HTTP on loopback",
    ),
    ("tls", healthy(pages={}), UNKNOWN, "no pod"),
    ("rights-extender", healthy(), OK, "all"),
    ("rights-extender", denied_right(), FAILED, "may not create pods/binding"),
    ("rights-extender", denied_eviction(), OK, "all"),
    ("rights-extender", denied_eviction("--make-room=dry-run"), OK, "all"),
    ("rights-extender", denied_eviction("--make-room=evict"), FAILED, "may not create pods/eviction"),
    ("rights-extender", without_lease(), OK, "all but the rights to its Lease"),
    ("rights-extender", without_lease(leads=0), FAILED, "may not update leases"),
    ("rights-extender", without_lease(denied="create pods/binding"), FAILED, "may not create pods/binding"),
    ("rights-agent", healthy(reviews={(AGENT_NAME, "list nodes"): DENIED}), UNKNOWN, "needs the right"),
    ("rights-exporter", without(EXPORTER_NAME), UNKNOWN, "does not run as a pod"),
    ("admission", healthy(policies=frozenset()), WARNING, "missing or not bound: gpushare-agents"),
    ("admission", healthy(policies=DENIED), UNKNOWN, "forbidden"),
    ("admission", healthy(version="v1.28.1", policies=ABSENT), OK, "seals"),
    ("versions", with_pods(system_pod(AGENT_NAME, tag="0.0.1", name="old")), WARNING, "0.0.1"),
    ("versions", healthy(system_pods=[]), UNKNOWN, "no image"),
    ("sharing-nodes", healthy([]), FAILED, "no node shares"),
    ("sharing-nodes", healthy([gpu_node(ready=False)]), FAILED, "not ready: gpu-1"),
    ("agent-registered", healthy([gpu_node(amounts={})]), FAILED, "gpu-1 (the agent is ready)"),
    ("agent-registered", healthy([gpu_node("x", amounts={})]), FAILED, "x (no agent)"),
    (
        "agent-registered",
        healthy([gpu_node(amounts={}, annotations={ANN_CLOSED: "GPU 0 (NVIDIA GB10) is not shared"})]),
        FAILED,
        "gpu-1 (the agent is ready: GPU 0 (NVIDIA GB10) is not shared)",
    ),
    (
        "agents",
        agent_reports(sample("gpushare_device_plugin_registered", 0)),
        FAILED,
        "not registered with the kubelet of gpu-1",
    ),
    (
        "agents",
        agent_reports(sample("gpushare_device_plugin_degraded_mode", 1, right="events")),
        WARNING,
        "events",
    ),
    ("published-gpus", healthy([gpu_node(annotations={ANN_CARDS: "x"})]), FAILED, "gpushare.io/cards"),
    (
        "published-gpus",
        healthy([gpu_node(amounts={"aliyun.com/gpu-mem": "14", "aliyun.com/gpu-count": "2"})]),
        FAILED,
        "lists 1 GPUs",
    ),
    (
        "published-gpus",
        healthy([gpu_node(amounts={"aliyun.com/gpu-mem": "9", "aliyun.com/gpu-count": "1"})]),
        FAILED,
        "has 14 units, aliyun.com/gpu-mem is 9",
    ),
    (
        "other-plugins",
        healthy([gpu_node(amounts={"nvidia.com/gpu": "2"})]),
        FAILED,
        "offers 2 of nvidia.com/gpu",
    ),
    ("driver", agent_reports(sample("gpushare_device_plugin_nvml_up", 0)), FAILED, "NVML does not respond"),
    (
        "driver",
        healthy([gpu_node(labels={"gpushare": "true", "nvidia.com/cuda.driver-version.full": "580.1"})]),
        OK,
        "version 580.1",
    ),
    ("container-runtime", healthy(), UNKNOWN, "no pod with units runs"),
    ("container-runtime", running_pod(), OK, "1 pod with units run"),
    ("container-runtime", broken_runtime(), FAILED, "unresolvable CDI devices"),
    ("container-runtime", cdi("v1.27.1"), FAILED, "ignores"),
    ("container-runtime", cdi("v1.36.1"), UNKNOWN, "no pod"),
    (
        "container-runtime",
        healthy(device_lists("cdi: a file names all")),
        OK,
        "GPUs of gpu-1: cdi: a file names all",
    ),
    (
        "container-runtime",
        healthy(device_lists("volume-mounts: no file", "cdi: a file names all")),
        UNKNOWN,
        "GPUs of gpu-1: volume-mounts: no file",
    ),
    ("cgroups", healthy(cgroups={"gpu-1": 1}), WARNING, "version 1"),
    ("cgroups", healthy(cgroups={"gpu-1": DENIED}), UNKNOWN, "needs the right"),
    ("cgroups", healthy(cgroups={}), UNKNOWN, "no node"),
    ("cpu-manager", healthy(), OK, "not used"),
    ("cpu-manager", healthy(cpu_managers={"gpu-1": "static"}), WARNING, "may lose their GPU"),
    (
        "cpu-manager",
        healthy(device_lists("cdi: why"), cpu_managers={"gpu-1": "static"}),
        OK,
        "with CDI on gpu-1",
    ),
    (
        "cpu-manager",
        healthy(device_lists("volume-mounts: no file"), cpu_managers={"gpu-1": "static"}),
        WARNING,
        "may lose their GPU on gpu-1",
    ),
    ("cpu-manager", healthy(cpu_managers={"gpu-1": DENIED}), UNKNOWN, "needs the right"),
    ("cpu-manager", healthy(cpu_managers={}), UNKNOWN, "no node"),
    ("isolation", healthy(), OK, "1 node with limits"),
    (
        "isolation",
        healthy([gpu_node(), *(gpu_node(name, labels={"gpushare": "true"}) for name in ("b", "c"))]),
        WARNING,
        "memory limits are not enforced on 2 nodes: b, c",
    ),
    (
        "isolation",
        replace(mode_node("cgpu"), system_pods=[]),
        FAILED,
        f"{ISOLATION_INSTALLER_NAME} on gpu-1 (mode cgpu)",
    ),
    ("isolation", mode_node("mps"), FAILED, f"{MPS_NAME} on gpu-1 (mode mps)"),
    (
        "isolation",
        mode_node("cgpu", LABEL_NO_ISOLATION),
        OK,
        "1 without limits by the label",
    ),
    (
        "isolation",
        mode_node("mps", LABEL_NO_ISOLATION),
        OK,
        "1 without limits by the label",
    ),
    ("gpu-models", healthy([gpu_node("n", gpu(model="NVIDIA GeForce RTX 4090"))]), WARNING, "RTX 4090 on n"),
    ("gpu-health", healthy([gpu_node("n", gpu(healthy=False))]), FAILED, "GPU 0 of n"),
    ("gpu-health", healthy([gpu_node("n", gpu(fault="XID 95"))]), FAILED, "GPU 0 of n; XID 95"),
    ("gpu-health", healthy(unhealthy={"gpu-1": frozenset({0})}), FAILED, "GPU 0 of gpu-1"),
    (
        "gpu-health",
        listed_as_unhealthy(gpus="x,,GPU-2"),
        WARNING,
        "ConfigMap kube-system/unhealthy-gpu-gpu-1: 'x', 'GPU-2' is not a GPU index",
    ),
    (
        "gpu-health",
        healthy(
            unhealthy={"gpu-1": frozenset({0})}, config_maps=[config_map("unhealthy-gpu-gpu-1", gpus="0,x")]
        ),
        FAILED,
        "unhealthy: GPU 0 of gpu-1; ConfigMap kube-system/unhealthy-gpu-gpu-1: 'x' is not a GPU index",
    ),
    (
        "gpu-health",
        listed_as_unhealthy(gpu="0"),
        WARNING,
        "ConfigMap kube-system/unhealthy-gpu-gpu-1 has no key gpus; write gpus: 0,2, or delete it",
    ),
    (
        "gpu-health",
        listed_as_unhealthy(gpus="0,9"),
        WARNING,
        "ConfigMap kube-system/unhealthy-gpu-gpu-1: gpu-1 has no GPU 9",
    ),
    ("gpu-health", healthy(config_maps=DENIED), UNKNOWN, "needs the right"),
    ("gpu-health", listed_as_unhealthy(gpus=""), OK, "GPU"),
    ("gpu-health", listed_as_unhealthy("gone", gpus="x"), OK, "GPU"),
    (
        "gpu-health",
        healthy([gpu_node("n", gpu(healthy=False), annotations={ANN_CORDONED_CARDS: "0"})]),
        OK,
        "1 GPU",
    ),
    ("cordoned-gpus", healthy([gpu_node(annotations={ANN_CORDONED_CARDS: "0"})]), WARNING, "GPU 0 of gpu-1"),
    ("overcommitted-gpus", crowded(), FAILED, "GPU 0 of gpu-1"),
    ("unplaced-pods", healthy(pods=[(pod("p", 4, at="gpu-1"), {})]), WARNING, "default/p"),
    (
        "unshared-pods",
        shares_no_more(pod("p", 4, at="gpu-1", card=0)),
        WARNING,
        "gpu-1 does not share (label cgpu=false), and pods use its GPUs: default/p",
    ),
    (
        "unshared-pods",
        shares_no_more(pod("p", 4, at="gpu-1", card=0), amounts={"nvidia.com/gpu": "1"}),
        FAILED,
        "pods use its GPUs, which may be allocated again as nvidia.com/gpu: default/p",
    ),
    ("unshared-pods", shares_no_more(), OK, "none"),
    ("unshared-pods", healthy(pods=[(pod("p", 4, at="gpu-1", card=0), {})]), OK, "none"),
    ("exporters", without(EXPORTER_NAME), WARNING, "no exporter is ready on gpu-1"),
    (
        "exporters",
        with_page(
            EXPORTER_NAME, changed(EXPORTER_PAGE, sample("gpushare_exporter_source_up", 0, source="x"))
        ),
        WARNING,
        "x on gpu-1",
    ),
    ("metrics-api", healthy(), OK, "not deployed"),
    (
        "metrics-api",
        healthy(api_services=[api_service("True")]),
        OK,
        "v1.usage.gpushare.io: available",
    ),
    (
        "metrics-api",
        healthy(api_services=[api_service("False", "no endpoints")]),
        FAILED,
        "v1.usage.gpushare.io: no endpoints; until then, deleted namespaces stay Terminating",
    ),
    ("pending-pods", healthy(pods=PENDING), WARNING, "1 pod: default/p"),
]


@pytest.mark.parametrize(("name", "found", "status", "words"), CASES)
def test_a_check(name: str, found: Installation, status: Status, words: str) -> None:
    result = verdict(name, found)
    assert (result.status, words in result.cause) == (status, True), result
    assert result.command or status in (OK, UNKNOWN) or name == "api-server"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("x509: certificate signed by unknown authority", "create job --from=cronjob/gpushare-metrics-cert"),
        ("no response from 10.0.0.1:443", "kubectl describe apiservice v1.usage.gpushare.io"),
    ],
)
def test_the_remedy_of_an_unavailable_metrics_api_depends_on_its_cause(message: str, words: str) -> None:
    result = verdict("metrics-api", healthy(api_services=[api_service("False", message)]))
    assert words in (result.command or "")


@pytest.mark.parametrize("words", [("--v=2",), ("--config=/of/the/host.yaml",)])
def test_a_scheduler_that_calls_the_extender_is_judged_whatever_others_do(words: tuple[str, ...]) -> None:
    """A sidecar stands beside the scheduler of the control plane, here before it in the list."""
    memory = scheduler_config(managedResources=[{"name": "aliyun.com/gpu-mem"}])
    pods = [scheduler_pod(*words, maps=False), *our_pods()]
    found = verdict("scheduler-config", healthy(system_pods=pods, config_maps=[memory]))
    assert (found.status, "gpu-core.percentage" in found.cause) == (WARNING, True)


def test_the_address_of_several_sidecars_is_named_once() -> None:
    pods = [pod for pod in our_pods() for _ in range(3)]
    found = verdict("extender-address", healthy(system_pods=pods))
    assert found == verdict("extender-address", healthy())


def two_replicas(*, ready: bool) -> Installation:
    """The first does not lead and was not called; ``b``, which may be ``ready``, cannot be read."""
    quiet = changed(
        EXTENDER_PAGE,
        sample("gpushare_extender_leader", 0),
        sample("gpushare_extender_requests_total", 0, verb="filter"),
    )
    pages = PAGES | {EXTENDER_NAME: quiet, "b": Unread("error trying to reach service")}
    return extenders(extender_pod(), extender_pod(name="b", ready=ready), pages=pages, pods=PENDING)


@pytest.mark.parametrize("name", ["extender-leader", "extender-calls"])
def test_a_replica_without_an_answer_may_be_the_one_that_leads_and_is_called(name: str) -> None:
    found = verdict(name, two_replicas(ready=True))
    assert (found.status, found.cause) == (UNKNOWN, "error trying to reach service")


@pytest.mark.parametrize("name", ["extender-leader", "extender-calls"])
def test_a_replica_that_is_not_ready_neither_leads_nor_is_called(name: str) -> None:
    assert verdict(name, two_replicas(ready=False)).status is FAILED


def test_only_the_extender_may_lack_rights_to_its_lease() -> None:
    found = without_lease()
    assert verdict("rights-agent", found).cause == "all"
    denied = {**found.reviews, (AGENT_NAME, "update leases"): False}
    assert verdict("rights-agent", replace(found, reviews=denied)).status is FAILED


def test_every_check_has_a_failure_and_a_healthy_case() -> None:
    findings = examine(healthy())
    assert [f for f in findings if f.verdict.status is not OK and f.check.name != "container-runtime"] == []
    assert is_healthy(findings)
    bad = {name for name, _, status, _ in CASES if status is not OK}
    assert bad == {check.name for check in CHECKS}


def test_nothing_that_cannot_be_read_is_a_traceback() -> None:
    lists = ("nodes", "books", "pods", "system_pods", "deployments", "services", "config_maps")
    names = (*lists, "version", "lease", "policies", "api_services")
    denied: dict[str, Any] = dict.fromkeys(names, DENIED)
    nothing = replace(healthy(), pages={}, cgroups={}, cpu_managers={}, reviews={}, **denied)
    findings = examine(nothing)
    assert {each.verdict.status for each in findings} == {UNKNOWN}
    assert not is_healthy(findings)


def test_nodes_of_the_aliyun_plugin_publish_no_gpus() -> None:
    raw = gpu_node()
    del raw["metadata"]["annotations"][ANN_CARDS]
    assert verdict("published-gpus", healthy([raw])).status is WARNING


@pytest.mark.parametrize("node", [[], [gpu_node("x", amounts={})]])
def test_without_an_agent_the_command_shows_which_labels_it_selects(node: list[Any]) -> None:
    """The pools of a stack may select any label."""
    name = "agent-registered" if node else "sharing-nodes"
    assert "nodeSelector" in verdict(name, healthy(node)).command


def test_the_command_for_an_unknown_address_asks_a_path_that_the_extender_serves() -> None:
    assert verdict("extender-address", healthy(config_maps=[])).command == (
        "on the node of the scheduler: curl -k URL/inspect, with its urlPrefix as URL"
    )


def test_drivers_that_differ() -> None:
    key = "nvidia.com/cuda.driver-version.full"
    nodes = [gpu_node(name, labels={"gpushare": "true", key: name}) for name in ("a", "b")]
    assert verdict("driver", healthy(nodes)).status is WARNING


def test_an_empty_book_has_no_unplaced_pods() -> None:
    found = healthy(books=books_of([node("n")], [pod("p", 4, at="n")], {}))
    assert verdict("unplaced-pods", found).status is OK
