"""Attacks on the allocations of others, and on the GPUs of a node, by tenants and by an agent."""

from collections.abc import AsyncIterator
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest
import pytest_asyncio

from components.config import ClusterSettings, Tenant
from components.config_extender import Extender
from components.manifests import admission
from components.manifests.parts import Object
from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.agent_api import KubeAgentApi
from gpushare.adapters.kube.client import KubeClient
from gpushare.contract import (
    AGENT_NAME,
    ALLOCATION_ANNOTATIONS,
    ANN_CARDS,
    ANN_IDX,
    ANN_PLACEMENT,
    ANN_SEAL,
    EXTENDER_NAME,
    MIRROR_ANNOTATION,
    RESOURCE_MEM,
    STARTUP_TAINTS,
    UNHEALTHY_PREFIX,
)
from gpushare.deviceplugin.core.startup_taints import removed_taints
from gpushare.errors import ApiError
from gpushare.kubescheduler.config import parse_version
from gpushare.model.conflicts import OWN_FILES, OWN_GUARANTEE, OWN_PRELOAD, PRELOADED_DRIVER, ConflictRule
from gpushare.model.demand import SUFFIX, UNITS_AND_WHOLE
from gpushare.model.local_node import LocalNode, Taint
from gpushare.scheduling.placement import POLICIES
from testbed import Bed, SimGpu, SimNode, gpu_pod, until
from testbed.control_plane.api import Api
from testbed.programs.binaries import release
from tests.support.warnings_shown import warnings_of

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

TEAM = "/api/v1/namespaces/team-a/pods"
SYSTEM = "/api/v1/namespaces/kube-system"
CONFIG = f"{SYSTEM}/configmaps/coredns"
UNHEALTHY = f"{SYSTEM}/configmaps/{UNHEALTHY_PREFIX}"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
DEVICES = "/var/run/nvidia-container-devices"


def pod(name: str, *, units: int = 1, **spec: Any) -> Object:
    """A pod of the tenant; ``spec`` replaces fields of it."""
    found = gpu_pod(name, units) if units else plain(name)
    found["metadata"]["namespace"] = "team-a"
    found["spec"] |= {"schedulerName": "none", **spec}
    return found


def plain(name: str) -> Object:
    container = {"name": "main", "image": "example.com/image"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }


def container(**fields: Any) -> list[Object]:
    return [{"name": "main", "image": "example.com/image", **fields}]


def env(name: str, **value: Any) -> list[Object]:
    return container(env=[{"name": name, **value}])


def host_path(path: str, mount: str = "/data") -> Object:
    return {
        "volumes": [{"name": "v", "hostPath": {"path": path}}],
        "containers": container(volumeMounts=[{"name": "v", "mountPath": mount}]),
    }


def preload(path: str) -> Object:
    """A mount of a file, as webhooks of APM products add it."""
    return {"name": "v", "mountPath": path, "subPath": "ld.so.preload"}


def limited(**fields: Any) -> Object:
    """A pod whose container requests units, and has a volume ``v``."""
    main = container(resources={"limits": {"aliyun.com/gpu-mem": "1"}}, **fields)
    return pod("a", volumes=[{"name": "v", "emptyDir": {}}], containers=main)


def annotated(name: str, *, node: str | None = None, **annotations: str) -> Object:
    found = pod(name, nodeName=node)
    found["metadata"]["annotations"] = annotations
    return found


PRIVILEGED = {"privileged": True}
CREATED = {
    **{f"annotation {key}": annotated("a", **{key: "1"}) for key in ALLOCATION_ANNOTATIONS},
    "privileged": pod("a", containers=container(securityContext=PRIVILEGED)),
    "privileged init container": pod(
        "a", initContainers=[{**container(securityContext=PRIVILEGED)[0], "name": "first"}]
    ),
    "hostPID": pod("a", hostPID=True),
    "hostIPC": pod("a", hostIPC=True),
    "hostPath /": pod("a", **host_path("/")),
    "hostPath with needless slashes and dots": pod("a", **host_path("//./dev//nvidia0")),
    "hostPath to the folder of kubelet sockets": pod("a", **host_path("/var/lib/kubelet/device-plugins")),
    "hostPath to our limits": pod("a", **host_path("/run/gpushare")),
    "device by hostPath": pod("a", **host_path("/dev/null", f"{DEVICES}/all")),
    "device by any mount": pod(
        "a",
        volumes=[{"name": "v", "emptyDir": {}}],
        containers=container(volumeMounts=[{"name": "v", "mountPath": "/run/nvidia-container-devices/0"}]),
    ),
    "device by variable": pod("a", units=0, containers=env("NVIDIA_VISIBLE_DEVICES", value="all")),
    "device by variable from a field": pod(
        "a",
        units=0,
        containers=env(
            "NVIDIA_VISIBLE_DEVICES",
            valueFrom={"fieldRef": {"fieldPath": "metadata.annotations['x']"}},
        ),
    ),
    "device by a mount with ..": pod(
        "a",
        volumes=[{"name": "v", "emptyDir": {}}],
        containers=container(
            volumeMounts=[{"name": "v", "mountPath": "/var/x/../run/nvidia-container-devices/0"}]
        ),
    ),
    "guarantee of the driver": pod("a", containers=env("NVIDIA_GPU_MEMORY_REQUEST", value="1")),
    "limit of the driver": pod("a", containers=env("NVIDIA_GPU_MEMORY_LIMIT", value="")),
    "guarantee by envFrom": pod(
        "a", containers=container(envFrom=[{"prefix": "NVIDIA_GPU_", "configMapRef": {"name": "x"}}])
    ),
    "own preload file": limited(volumeMounts=[preload("/etc/ld.so.preload")]),
    "own preload file, spelled otherwise": limited(volumeMounts=[preload("etc//./ld.so.preload")]),
    "own library": limited(volumeMounts=[{"name": "v", "mountPath": "/.gpushare/libgpushare.so"}]),
    "preloaded driver": limited(env=[{"name": "LD_PRELOAD", "value": "/usr/lib64/libcuda.so.1"}]),
    "limit of MPS": pod("a", containers=env("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", value="0=80G")),
    "device by CDI": annotated("a", **{"cdi.k8s.io/mine": "nvidia.com/gpu=all"}),
    "mirror of another pod": annotated(
        "a", node="n1", **{MIRROR_ANNOTATION: "7cdc0d62-9a44-4c1b-8b4d-1c2a2f1f0f6e"}
    ),
}
CHANGED: dict[str, Object] = {
    "another GPU": {ANN_IDX: "1"},
    "another seal": {ANN_SEAL: "x"},
    "no seal": {ANN_SEAL: None},
    "an amount before the bind": {"gpushare.alibabacloud.com/core-percentage": "x"},
    "device by CDI": {"cdi.k8s.io/mine": "nvidia.com/gpu=all"},
}
HARMLESS = {
    "units and NVIDIA_VISIBLE_DEVICES, as in the ACK documentation": pod(
        "a",
        containers=container(
            env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
            resources={"limits": {"aliyun.com/gpu-mem": "1"}},
        ),
    ),
    "hostPath to data": pod("a", **host_path("/data/var/lib")),
    "own preload file without units": pod(
        "a",
        units=0,
        volumes=[{"name": "v", "emptyDir": {}}],
        containers=container(volumeMounts=[preload("/etc/ld.so.preload")]),
    ),
    "volumes above and beside our files": limited(
        volumeMounts=[{"name": "v", "mountPath": path} for path in ("/etc", "/opt", "/gpushare", "/..data")]
    ),
    "another preload": limited(env=[{"name": "LD_PRELOAD", "value": "/opt/apm/launcher.so"}]),
    "variables of a ConfigMap": limited(
        envFrom=[{"configMapRef": {"name": "x"}}, {"prefix": "NVIDIA_X_", "secretRef": {"name": "y"}}]
    ),
    "no GPU": pod("a", units=0, containers=env("NVIDIA_VISIBLE_DEVICES", value="none")),
    "other annotations": annotated("a", **{"gpushare.io/placement": "spread", "example.com/x": "y"}),
}


def binding(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": {ANN_SEAL: "s", ANN_IDX: "0"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


def placed(name: str, node: str, **fields: Any) -> Object:
    found = annotated(name, **{ANN_SEAL: "s"})
    found["spec"] |= {"nodeName": node, **fields}
    return found


def all_rights(subject: Object) -> Object:
    return {
        "metadata": {"name": subject["name"]},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [subject],
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(shared_bed: Bed) -> Bed:
    """The policies in force. Accounts have all rights, so that only the policies refuse."""
    api = shared_bed.api
    await shared_bed.add_nodes([SimNode(name, cards=[SimGpu()]) for name in ("n1", "n2")])
    await shared_bed.create_namespace("team-a")
    await api.create(f"{RBAC}/namespaces/team-a/rolebindings", all_rights({"kind": "User", "name": "tenant"}))
    for account in (AGENT_NAME, EXTENDER_NAME):
        await api.create(f"{SYSTEM}/serviceaccounts", {"metadata": {"name": account}})
        subject = {"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}
        await api.create(f"{RBAC}/clusterrolebindings", all_rights(subject))
    for each in (placed("bound", "n1"), placed("old", "n1", hostPID=True), placed("on-n2", "n2")):
        await api.create(TEAM, each)
    for path in (CONFIG, f"{UNHEALTHY}n1", f"{UNHEALTHY}n2"):
        folder, _, name = path.rpartition("/")
        await api.create(folder, {"metadata": {"name": name}})
    settings = ClusterSettings(parse_version(release()), Extender(), tenants=(Tenant("team-a", gpu_mem=8),))
    for each in admission.objects(settings):
        plural = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
        kind = each["kind"]
        await api.create(f"{ADMISSION}/{plural.get(kind, f'{kind.lower()}s')}", each)
    await until(lambda: in_force(api), "the admission policies to be in force")
    return shared_bed


async def in_force(api: Api) -> bool:
    attacks = [pod("probe", hostPID=True), annotated("probe", **{ANN_SEAL: "s"})]
    hidden = {"metadata": {"name": "probe"}, "data": {"CUDA_MPS_X": "1"}}
    tried = [(TEAM, each) for each in attacks] + [(f"{TEAM.removesuffix('pods')}configmaps", hidden)]
    return all(
        [await refusal(api.request("POST", path, each, params={"dryRun": "All"})) for path, each in tried]
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenant(cluster: Bed) -> AsyncIterator[Api]:
    async with Api(cluster.api_url, cluster.credentials.context("tenant")) as api:
        yield api


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent(cluster: Bed) -> AsyncIterator[KubeClient]:
    """The agent in a pod on n1, with the token that the kubelet would mount there."""
    await cluster.api.create(
        f"{SYSTEM}/pods",
        {
            **plain("agent"),
            "spec": {**plain("agent")["spec"], "serviceAccountName": AGENT_NAME, "nodeName": "n1"},
        },
    )
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "agent"}
    path = f"{SYSTEM}/serviceaccounts/{AGENT_NAME}/token"
    token = (await cluster.api.create(path, {"spec": {"boundObjectRef": bound}}))["status"]["token"]

    async def authorization() -> str:
        return f"Bearer {token}"

    access = ApiAccess(host=cluster.api_url, ca=cluster.ca_file, authorization=authorization)
    async with KubeClient(access) as client:
        yield client


async def patched(client: KubeClient, path: str, body: Object) -> str:
    return await refusal(client.request("PATCH", path, body=body, timeout_s=10))


async def refusal(request: Any) -> str:
    """The text of the rejection by a policy; empty if the request was accepted."""
    try:
        await request
    except ApiError as error:
        if "ValidatingAdmissionPolicy 'gpushare-" in str(error):
            return str(error)
        raise
    return ""


@pytest.mark.parametrize("attack", CREATED)
async def test_a_tenant_cannot_create(tenant: Api, attack: str) -> None:
    assert await refusal(tenant.create(TEAM, CREATED[attack]))


@pytest.mark.parametrize("manifest", HARMLESS)
async def test_a_tenant_can_create(tenant: Api, manifest: str) -> None:
    assert not await refusal(tenant.request("POST", TEAM, HARMLESS[manifest], params={"dryRun": "All"}))


async def test_the_extender_cannot_create_the_token_of_another_account(cluster: Bed) -> None:
    """It may read the Secrets that it creates."""
    name, path = f"system:serviceaccount:kube-system:{EXTENDER_NAME}", f"{SYSTEM}/secrets"
    annotations = {"kubernetes.io/service-account.name": "default"}
    token = {
        "metadata": {"name": "token", "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    }
    async with Api(cluster.api_url, cluster.credentials.context(name)) as api:
        assert "creates Secrets of the type Opaque only" in await refusal(api.create(path, token))
        plain = {"metadata": {"name": "plain"}}
        assert not await refusal(api.request("POST", path, plain, params={"dryRun": "All"}))


@pytest.mark.parametrize("resource", ["", "/status"])
@pytest.mark.parametrize("attack", CHANGED)
async def test_a_tenant_cannot_change_a_bound_pod_to(tenant: Api, attack: str, resource: str) -> None:
    path = f"{TEAM}/bound{resource}"
    assert await refusal(tenant.patch(path, {"metadata": {"annotations": CHANGED[attack]}}))


async def test_a_rejection_names_the_container_and_the_annotation(tenant: Api) -> None:
    assert "containers of tenants may not be privileged: main" in await refusal(
        tenant.create(TEAM, CREATED["privileged"])
    )
    assert "only gpushare may write the annotation gpushare.io/seal" in await refusal(
        tenant.patch(f"{TEAM}/bound", {"metadata": {"annotations": {ANN_SEAL: "x"}}})
    )


async def test_a_rejection_names_the_effect_and_the_remedy(tenant: Api) -> None:
    text = await refusal(tenant.create(TEAM, CREATED["own preload file"]))
    assert (
        "containers of tenants may not have a mount on /etc/ld.so.preload, which hides the file that loads "
        "the isolation library: main; exclude the pod from the webhook that adds the mount (Datadog: label "
    ) in text


@pytest.mark.parametrize("kind", ["configmaps", "secrets"])
@pytest.mark.parametrize("key", ["NVIDIA_GPU_MEMORY_REQUEST", "CUDA_MPS_PIPE_DIRECTORY"])
async def test_a_tenant_cannot_hide_a_variable_in(tenant: Api, kind: str, key: str) -> None:
    path = f"/api/v1/namespaces/team-a/{kind}"
    content = {"metadata": {"name": "v"}, "data" if kind == "configmaps" else "stringData": {key: "1"}}
    assert f"may not have the key {key}" in await refusal(tenant.create(path, content))
    harmless = {"metadata": {"name": "v"}, "data": {"OTHER": "MQ=="}}
    assert not await refusal(tenant.request("POST", path, harmless, params={"dryRun": "All"}))


async def test_a_tenant_cannot_debug_with_a_privileged_container(tenant: Api) -> None:
    attack = {"name": "debug", "image": "example.com/image", "securityContext": PRIVILEGED}
    assert await refusal(
        tenant.patch(f"{TEAM}/bound/ephemeralcontainers", {"spec": {"ephemeralContainers": [attack]}})
    )


async def test_a_tenant_cannot_bind_with_an_allocation(tenant: Api) -> None:
    await tenant.create(TEAM, pod("waits"))
    assert await refusal(tenant.create(f"{TEAM}/waits/binding", binding("waits")))


async def test_the_extender_binds_with_an_allocation(cluster: Bed, tenant: Api) -> None:
    account = f"system:serviceaccount:kube-system:{EXTENDER_NAME}"
    await tenant.create(TEAM, pod("placed"))
    async with Api(cluster.api_url, cluster.credentials.context(account)) as extender:
        assert not await refusal(extender.create(f"{TEAM}/placed/binding", binding("placed")))
    found = await tenant.get(f"{TEAM}/placed")
    assert (found["spec"]["nodeName"], found["metadata"]["annotations"][ANN_SEAL]) == ("n1", "s")


async def test_a_pod_from_before_the_policies_can_still_be_changed(tenant: Api) -> None:
    """Otherwise no controller could remove its finalizers."""
    assert not await refusal(tenant.patch(f"{TEAM}/old", {"metadata": {"labels": {"a": "b"}}}))


@pytest.mark.parametrize(
    "path", ["/api/v1/nodes/n1", "/api/v1/nodes/n1/status", f"{TEAM}/bound", f"{UNHEALTHY}n1"]
)
async def test_an_agent_writes_to_its_node_and_to_pods_there(agent: KubeClient, path: str) -> None:
    assert not await patched(agent, path, {"metadata": {"annotations": {ANN_IDX: "0"}}})


@pytest.mark.parametrize(
    "path", ["/api/v1/nodes/n2", "/api/v1/nodes/n2/status", f"{TEAM}/on-n2", CONFIG, f"{UNHEALTHY}n2"]
)
async def test_an_agent_writes_to_nothing_of_another_node(agent: KubeClient, path: str) -> None:
    text = await patched(agent, path, {"metadata": {"annotations": {ANN_IDX: "0"}}})
    assert "an agent may write only to its node (n1), the pods there and its ConfigMap" in text


TAINTS = [{"key": key, "effect": "NoSchedule"} for key in ("first", *STARTUP_TAINTS, "last")]


@pytest.mark.parametrize(
    "spec",
    [
        {"taints": TAINTS[1:]},
        {"taints": [*TAINTS, {"key": "new", "effect": "NoExecute"}]},
        {"taints": [TAINTS[0], {"key": "new", "effect": "NoExecute"}, TAINTS[3]]},
        {"unschedulable": True},
    ],
)
async def test_an_agent_changes_nothing_else_of_the_spec_of_its_node(
    cluster: Bed, agent: KubeClient, spec: Object
) -> None:
    await cluster.api.patch("/api/v1/nodes/n1", {"spec": {"taints": TAINTS}})
    text = await patched(agent, "/api/v1/nodes/n1", {"spec": spec})
    assert "of the spec of its node, an agent may only remove startup taints" in text


async def test_an_agent_removes_the_startup_taints_of_its_node(cluster: Bed, agent: KubeClient) -> None:
    path = "/api/v1/nodes/n1"
    uid = (await cluster.api.patch(path, {"spec": {"taints": TAINTS}}))["metadata"]["uid"]
    node_api = KubeAgentApi(agent, node="n1", identity="agent")
    seen = LocalNode(
        "n1",
        uid,
        annotations={ANN_CARDS: "[]"},
        allocatable={RESOURCE_MEM: 14},
        taints=tuple(Taint(**each) for each in TAINTS),
    )
    # While the agent has an older state, nothing is removed, whatever is in those places now.
    await cluster.api.patch(path, {"spec": {"taints": TAINTS[1:]}})
    with pytest.raises(ApiError) as late:
        await node_api.remove_taints(removed_taints(seen) or [])
    assert late.value.status == HTTPStatus.UNPROCESSABLE_ENTITY
    assert (await cluster.api.get(path))["spec"]["taints"] == TAINTS[1:]

    await node_api.remove_taints(removed_taints(replace(seen, taints=seen.taints[1:])) or [])
    assert (await cluster.api.get(path))["spec"]["taints"] == TAINTS[3:]
    # A second agent on the node, or a second attempt.
    with pytest.raises(ApiError) as again:
        await node_api.remove_taints(removed_taints(replace(seen, taints=seen.taints[1:])) or [])
    assert again.value.status == HTTPStatus.UNPROCESSABLE_ENTITY
    await cluster.api.patch(path, {"spec": {"taints": None}})


async def test_a_stolen_name_of_the_agent_writes_nothing(cluster: Bed) -> None:
    """Without a token of a pod the API server does not know its node."""
    context = cluster.credentials.context(
        f"system:serviceaccount:kube-system:{AGENT_NAME}", ["system:masters"]
    )
    async with Api(cluster.api_url, context) as agent:
        assert await refusal(agent.patch("/api/v1/nodes/n1", {"metadata": {"annotations": {"a": "b"}}}))


def deployment(limits: Object, **spec: Any) -> Object:
    """A workload of the tenant whose second container has these limits."""
    containers = [{"name": "first", "image": "i"}, *container(resources={"limits": limits})]
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers, **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "team-a"},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template},
    }


@pytest.mark.parametrize(
    ("limits", "warning"),
    [
        ({"aliyun.com/gpu-mem": "4Gi"}, f"container main: {SUFFIX}"),
        ({"aliyun.com/gpu-mem": "4096Mi"}, f"container main: {SUFFIX}"),
        ({"aliyun.com/gpu-mem": "4", "nvidia.com/gpu": "1"}, f"container main: {UNITS_AND_WHOLE}"),
        ({"aliyun.com/gpu-mem": "4", "nvidia.com/gpu.shared": "1"}, f"container main: {UNITS_AND_WHOLE}"),
        ({"aliyun.com/gpu-mem": "0", "nvidia.com/gpu": "1"}, ""),
        ({"aliyun.com/gpu-mem": "4"}, ""),
        ({"aliyun.com/gpu-mem": "196608"}, ""),
        ({"nvidia.com/gpu": "1"}, ""),
        ({"memory": "4Gi"}, ""),
    ],
    ids=str,
)
async def test_who_applies_a_request_that_no_node_can_take_is_warned(
    cluster: Bed, limits: Object, warning: str
) -> None:
    made = deployment(limits)
    lone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team-a"}}
    alone = {**lone, "spec": made["spec"]["template"]["spec"]}
    for each in (made, alone):
        found = await warnings_of(cluster, each)
        assert warning in found
        assert bool(warning) == bool(found)


async def test_who_applies_an_unknown_placement_policy_is_warned_with_those_that_there_are(
    cluster: Bed,
) -> None:
    made = deployment({"aliyun.com/gpu-mem": "4"})
    lone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team-a"}}
    alone = {**lone, "spec": made["spec"]["template"]["spec"]}
    for each, meta in ((made, made["spec"]["template"]["metadata"]), (alone, alone["metadata"])):
        meta["annotations"] = {ANN_PLACEMENT: "random"}
        warning = f"annotation {ANN_PLACEMENT}=random is not one of {', '.join(POLICIES)}"
        assert warning in await warnings_of(cluster, each)
        meta["annotations"] = {ANN_PLACEMENT: "topology"}
        assert not await warnings_of(cluster, each)


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"volumeMounts": [{"name": "v", "mountPath": "/etc/ld.so.preload"}]}, OWN_PRELOAD),
        ({"volumeMounts": [{"name": "v", "mountPath": "/.gpushare/limit"}]}, OWN_FILES),
        ({"env": [{"name": "LD_PRELOAD", "value": "libcuda.so"}]}, PRELOADED_DRIVER),
        ({"env": [{"name": "NVIDIA_GPU_MEMORY_LIMIT", "value": "1024"}]}, OWN_GUARANTEE),
    ],
    ids=["preload", "files", "driver", "guarantee"],
)
async def test_who_applies_what_nodes_reject_is_warned(
    cluster: Bed, fields: Object, rule: ConflictRule
) -> None:
    made = deployment({"aliyun.com/gpu-mem": "4"}, volumes=[{"name": "v", "emptyDir": {}}])
    made["spec"]["template"]["spec"]["containers"][1] |= fields
    found = await warnings_of(cluster, made)
    assert f"container main: it has {rule.declaration}, which {rule.effect}: {rule.remedy}" in found
    del made["spec"]["template"]["spec"]["containers"][1]["resources"]
    assert not await warnings_of(cluster, made)
