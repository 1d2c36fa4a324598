"""Our Pulumi program under the real engine, with the official host and provider, on real control planes.

Nodes are simulated, so that Deployments become available. The official provider is an old release, the
newest that the Go module proxy has: what only later ones do is in ``test_pulumi_apply``.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from components.manifests import everything
from components.render import as_yaml
from components.stack import from_file, load
from devkit.ports import free_ports
from devkit.waiting import together
from gpushare.contract import CERTIFICATES_NAME, SYSTEM_NAMESPACE
from testbed import Bed, SimGpu, SimNode, Testbed, gpu_pod, until
from testbed.control_plane.api import Object
from testbed.pulumi import PulumiError, PulumiOutcome, PulumiStack, old_tokens
from tests.support.builders.stacks import STACKS
from tests.support.fixtures.clusters import CONTROL_PLANE, names_of, uids_by_name, unlike

CONFIG: dict[str, Any] = from_file(STACKS["node-port"])
RENDERED = everything(load(CONFIG))
DEPLOYMENT = "Deployment/kube-system/gpushare-schd-extender"
(CERTIFICATES,) = (
    name for name in names_of(RENDERED) if name.startswith(f"Job/{SYSTEM_NAMESPACE}/{CERTIFICATES_NAME}")
)
SERVICE = "Service/kube-system/gpushare-schd-extender"
OTHER_IMAGE = f"example.com/extender@sha256:{'3' * 64}"

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]


def with_extender(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**config, "extender": {**config["extender"], **changes}}


def merged(beds: dict[str, Bed], file: Path) -> Path:
    """One kubeconfig with a context for each bed; the current one is the last, also for ``destroy``."""
    parts = {name: yaml.safe_load(bed.kubeconfig.read_text()) for name, bed in beds.items()}
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": [*parts][-1],
        "clusters": [{**part["clusters"][0], "name": name} for name, part in parts.items()],
        "users": [{**part["users"][0], "name": name} for name, part in parts.items()],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in parts],
    }
    file.write_text(yaml.safe_dump(whole))
    return file


@dataclass
class Clusters:
    """Two control planes, the second without nodes. Only the context of a stack selects its cluster."""

    beds: dict[str, Bed]
    kubeconfig: Path

    async def stack(self, name: str) -> PulumiStack:
        config = {**CONFIG, "context": name}
        return await PulumiStack.create(self.beds[name], config, name=name, kubeconfig=self.kubeconfig)


@dataclass
class Deployed:
    """The stack of the first cluster after each step, and the objects of the cluster between the steps."""

    stack: PulumiStack
    config: dict[str, Any]
    before: dict[str, str]
    previewed: PulumiOutcome
    between: dict[str, str]
    made: PulumiOutcome
    after: dict[str, str]

    @property
    def bed(self) -> Bed:
        return self.stack.bed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clusters(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Clusters]:
    async with Testbed() as one, Testbed() as two:
        await one.add_nodes([*CONTROL_PLANE, SimNode("gpu", [SimGpu(), SimGpu()])])
        await together([old_tokens(one), old_tokens(two)])
        beds = {"one": one, "two": two}
        yield Clusters(beds, merged(beds, tmp_path_factory.mktemp("clusters") / "kubeconfig"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def deployed(clusters: Clusters) -> Deployed:
    stack = await clusters.stack("one")
    before = await uids_by_name(stack.bed)
    previewed = await stack.preview()
    between = await uids_by_name(stack.bed)
    made = await stack.up()
    config = {**CONFIG, "context": "one"}
    return Deployed(stack, config, before, previewed, between, made, await uids_by_name(stack.bed))


async def test_a_preview_names_every_object_and_touches_nothing(deployed: Deployed) -> None:
    assert deployed.previewed.changes == dict.fromkeys(names_of(RENDERED), "create")
    assert deployed.between == deployed.before


async def test_up_creates_exactly_the_rendered_objects(deployed: Deployed) -> None:
    assert deployed.made.changes == deployed.previewed.changes
    assert deployed.after.keys() - deployed.before.keys() == names_of(RENDERED)
    assert deployed.before.items() <= deployed.after.items()
    assert await unlike(deployed.bed, RENDERED) == []


async def test_the_comparison_with_the_rendered_objects_would_find_a_difference(deployed: Deployed) -> None:
    other = everything(load(with_extender(CONFIG, image=OTHER_IMAGE)))
    assert await unlike(deployed.bed, other) == [f"{DEPLOYMENT}: spec.template.spec.containers[0].image"]


async def test_a_second_up_changes_nothing(deployed: Deployed) -> None:
    assert (await deployed.stack.up()).changes == {}
    assert await uids_by_name(deployed.bed) == deployed.after


async def test_a_renamed_component_keeps_every_object_with_one_alias(
    deployed: Deployed,
) -> None:
    program = deployed.stack.project / "__main__.py"
    text = program.read_text()
    old, options = 'GpuShare("gpushare", stack, ', "providers=[cluster]"
    assert (text.count(old), text.count(options)) == (1, 1)
    renamed = text.replace(old, 'GpuShare("cards", stack, ')
    program.write_text(renamed)
    lost = (await deployed.stack.preview()).changes
    assert set(lost) == names_of(RENDERED)

    program.write_text(renamed.replace(options, f'{options}, aliases=[pulumi.Alias(name="gpushare")]'))
    assert (await deployed.stack.up()).changes == {}
    assert await uids_by_name(deployed.bed) == deployed.after
    program.write_text(text.replace(options, f'{options}, aliases=[pulumi.Alias(name="cards")]'))
    assert (await deployed.stack.up()).changes == {}
    program.write_text(text)
    assert (await deployed.stack.preview()).changes == {}


async def test_the_state_of_the_engine_has_no_credentials(deployed: Deployed) -> None:
    user = yaml.safe_load(deployed.bed.kubeconfig.read_text())["users"][0]["user"]
    state = str(await deployed.stack.export())
    assert "gpushare-schd-extender" in state
    assert not [secret for secret in user.values() if secret in state]


async def test_an_empty_file_of_attributes_that_a_kill_has_left_can_be_removed(deployed: Deployed) -> None:
    stack = deployed.stack
    before = await stack.export()
    (attributes,) = (stack.folder / "state").rglob(f"stacks/**/{stack.name}.json.attrs")
    attributes.write_text("")
    with pytest.raises(PulumiError, match="failed to load checkpoint: EOF"):
        await stack.export()
    attributes.unlink()
    assert await stack.export() == before


async def test_another_image_is_the_only_difference_and_updates_one_object(
    deployed: Deployed,
) -> None:
    stack = deployed.stack
    stack.configure(with_extender(deployed.config, image=OTHER_IMAGE))
    shown = await stack.preview("--diff")
    assert shown.changes == {DEPLOYMENT: "update"}
    assert shown.step(DEPLOYMENT).diff == ("spec.template.spec.containers[0].image",)
    assert f'"{CONFIG["extender"]["image"]}" => "{OTHER_IMAGE}"' in shown.text
    assert (await stack.up()).changes == {DEPLOYMENT: "update"}
    image = "jsonpath={.spec.template.spec.containers[*].image}"
    path = ("deployment/gpushare-schd-extender", "--namespace=kube-system")
    assert await deployed.bed.kubectl("get", *path, f"--output={image}") == OTHER_IMAGE
    assert await uids_by_name(deployed.bed) == deployed.after
    stack.configure(deployed.config)
    assert (await stack.up()).changes == {DEPLOYMENT: "update"}


async def test_a_refresh_finds_a_deleted_object_and_the_next_up_brings_it_back(deployed: Deployed) -> None:
    await deployed.bed.api.delete("/api/v1/namespaces/kube-system/services/gpushare-schd-extender")
    assert (await deployed.stack.refresh()).changes == {SERVICE: "delete"}
    assert (await deployed.stack.up()).changes == {SERVICE: "create"}
    assert (await uids_by_name(deployed.bed)).keys() == deployed.after.keys()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"replicas": 4}, "extender.replicas: 4 is not allowed; use 1, 2 or 3"),
        ({"exposure": "ingress"}, "extender.exposure: 'ingress' is not allowed; use one of node-port, "),
        ({"replica": 1}, "extender.replica: unknown key; use one of image, replicas, "),
    ],
)
async def test_the_error_for_a_bad_configuration_has_key_value_and_valid_values(
    deployed: Deployed, change: dict[str, Any], text: str
) -> None:
    before = await uids_by_name(deployed.bed)
    deployed.stack.configure(with_extender(deployed.config, **change))
    try:
        with pytest.raises(PulumiError) as caught:
            await deployed.stack.up()
    finally:
        deployed.stack.configure(deployed.config)
    assert f"error: {text}" in caught.value.outcome.text
    assert "Traceback" not in caught.value.outcome.text
    assert caught.value.outcome.objects == ()
    assert await uids_by_name(deployed.bed) == before


async def test_more_pods_than_control_plane_nodes_are_an_error_and_not_a_timeout(deployed: Deployed) -> None:
    job = {"image": deployed.config["extender"]["image"], "controlPlanes": 4}
    deployed.stack.configure({**deployed.config, "installer": job})
    try:
        with pytest.raises(PulumiError) as caught:
            await deployed.stack.up()
    finally:
        deployed.stack.configure(deployed.config)
    assert "error: installer.controlPlanes: 4, but each pod" in caught.value.outcome.text
    assert "3 of 4 nodes have the label" in caught.value.outcome.text
    assert caught.value.outcome.objects == ()


async def test_the_error_for_an_unreachable_cluster_says_so(deployed: Deployed, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    document = yaml.safe_load(deployed.bed.kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    away = tmp_path / "kubeconfig"
    away.write_text(yaml.safe_dump(document))
    stack = await PulumiStack.create(deployed.bed, CONFIG, name="away", kubeconfig=away)
    with pytest.raises(PulumiError, match=f"configured Kubernetes cluster is unreachable: .*:{port}"):
        await stack.up()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "error: context: not set, and the kubeconfig has several: one, two"),
        ({"context": "two"}, "error: clusterUid: "),
    ],
)
async def test_without_the_context_of_its_cluster_a_stack_changes_nothing(
    clusters: Clusters, deployed: Deployed, changes: dict[str, str], reason: str
) -> None:
    before = {name: await uids_by_name(bed) for name, bed in clusters.beds.items()}
    namespace = await deployed.bed.api.get("/api/v1/namespaces/kube-system")
    deployed.stack.configure({**CONFIG, "clusterUid": namespace["metadata"]["uid"], **changes})
    try:
        with pytest.raises(PulumiError) as caught:
            await deployed.stack.up()
    finally:
        deployed.stack.configure(deployed.config)
    assert reason in caught.value.outcome.text
    assert caught.value.outcome.objects == ()
    assert {name: await uids_by_name(bed) for name, bed in clusters.beds.items()} == before


async def cut_off(stack: PulumiStack) -> list[Object]:
    """The objects that the engine was creating when it was killed, by its state."""
    operations = (await stack.export())["deployment"]["pending_operations"]
    return [each["resource"]["inputs"] for each in operations]


async def test_an_up_that_was_killed_before_its_end_can_be_finished_and_touches_no_other_cluster(
    clusters: Clusters, deployed: Deployed
) -> None:
    stack = await clusters.stack("two")
    bed = stack.bed
    before, first = await uids_by_name(bed), await uids_by_name(deployed.bed)
    process = await stack.start("up")

    async def waits_for_pods() -> bool:
        """Without nodes the Job does not complete, and the extender waits for it."""
        return CERTIFICATES in await uids_by_name(bed)

    await until(waits_for_pods, "the Job", 120)
    await stack.kill(process)
    await bed.add_nodes(CONTROL_PLANE)
    with pytest.raises(PulumiError, match="the stack is currently locked"):
        await stack.up()
    await stack.cancel()
    unknown = await cut_off(stack)
    assert CERTIFICATES in names_of(unknown)
    # Current providers can adopt these objects; the official one here cannot.
    await bed.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=as_yaml(unknown))
    await stack.up("--refresh")
    assert (await uids_by_name(bed)).keys() - before.keys() == names_of(RENDERED)
    assert (await stack.preview()).changes == {}
    assert await uids_by_name(deployed.bed) == first


async def running(bed: Bed, namespace: str) -> Object:
    """The pod "works" of the namespace, after it has started."""

    async def runs() -> Any:
        pod = await bed.api.get(f"/api/v1/namespaces/{namespace}/pods/works")
        return pod["status"].get("phase") == "Running" and pod

    pod: Object = await until(runs, f"the pod in {namespace} to run")
    return pod


async def uids(bed: Bed, *namespaces: str) -> list[str]:
    """Of the pods "works", which all run."""
    return [(await running(bed, each))["metadata"]["uid"] for each in namespaces]


async def with_pod(bed: Bed, tenant: str) -> None:
    """Create a pod with GPU memory and the priority of the tenant in its namespace."""
    await bed.until_service_account(tenant)
    await bed.create_pods([gpu_pod("works", 4, namespace=tenant, priorityClassName=tenant)])


async def test_a_stack_of_an_earlier_release_retains_its_objects_after_one_up(
    deployed: Deployed, tmp_path: Path
) -> None:
    state = await deployed.stack.export()
    for each in state["deployment"]["resources"]:
        each.pop("retainOnDelete", None)
    file = tmp_path / "state.json"
    file.write_text(json.dumps(state))
    await deployed.stack.run("stack", "import", "--file", str(file))
    assert (await deployed.stack.up()).changes == {}
    resources = (await deployed.stack.export())["deployment"]["resources"]
    retained = [each["inputs"] for each in resources if each.get("retainOnDelete")]
    assert names_of(retained) == {"Namespace/team-a", "PriorityClass/team-a"}


async def test_a_renamed_tenant_is_a_new_one_and_pods_of_the_former_keep_running(
    deployed: Deployed,
) -> None:
    bed, stack = deployed.bed, deployed.stack
    await with_pod(bed, "team-a")
    (before,) = await uids(bed, "team-a")
    stack.configure({**deployed.config, "tenants": [{**CONFIG["tenants"][0], "name": "team-b"}]})
    await stack.up()
    added = {"Namespace/team-b", "PriorityClass/team-b", "ResourceQuota/team-b/gpu-mem"}
    assert (await uids_by_name(bed)).keys() == deployed.after.keys() - {
        "ResourceQuota/team-a/gpu-mem"
    } | added
    assert await uids(bed, "team-a") == [before]


async def test_destroy_removes_all_objects_except_pods_their_namespaces_and_labels(
    deployed: Deployed,
) -> None:
    bed, everywhere = deployed.bed, ("default", "team-a", "team-b")
    await bed.create_pods([gpu_pod("works", 4)])
    await with_pod(bed, "team-b")
    before = await uids(bed, *everywhere)
    node = await bed.api.get("/api/v1/nodes/gpu")
    await deployed.stack.destroy()
    left = {f"{kind}/{tenant}" for kind in ("Namespace", "PriorityClass") for tenant in ("team-a", "team-b")}

    async def ended() -> bool:
        """The old provider neither waits for DaemonSets nor deletes them in the background."""
        return (await uids_by_name(bed)).keys() == deployed.before.keys() | left

    await until(ended, f"only {left} to be left")
    assert deployed.before.items() <= (await uids_by_name(bed)).items()
    assert await uids(bed, *everywhere) == before
    assert (await bed.api.get("/api/v1/nodes/gpu"))["metadata"]["labels"] == node["metadata"]["labels"]
