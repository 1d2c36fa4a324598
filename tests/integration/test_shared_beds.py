"""The control plane that files of tests share is as new after each of them."""

import pytest

from testbed import Bed, SchedulerSpec, SimGpu, SimNode, until
from tests.support.fixtures.shared_beds import Origin

pytestmark = pytest.mark.asyncio(loop_scope="session")

COMPONENTS = {"etcd", "kube-apiserver", "kube-controller-manager", "kwok"}
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: left, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: left}}
  template:
    metadata: {labels: {app: left}}
    spec: {containers: [{name: main, image: example.com/image}]}
"""
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node"
NAMESPACE = "/api/v1/namespaces/default"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


async def names(bed: Bed, path: str) -> list[str]:
    return [each["metadata"]["name"] for each in await bed.api.items(path)]


async def test_objects_and_processes_are_gone_and_controllers_do_not_replace_them(worker_bed: Origin) -> None:
    bed = worker_bed.bed
    namespaces = await names(bed, "/api/v1/namespaces")
    await bed.restart_scheduler(SchedulerSpec())
    helper = await bed.spawn("helper", ["/bin/sleep", "600"])
    await bed.add_nodes([SimNode("left", [SimGpu()])])
    await bed.create_namespace("left")
    await bed.apply(DEPLOYMENT)

    async def run() -> bool:
        phases = [each["status"].get("phase") for each in await bed.api.items("/api/v1/pods")]
        return phases == ["Running"] * 3

    await until(run, "the pods of the Deployment to run")
    await worker_bed.restore()
    assert not helper.running
    assert bed.processes.keys() == COMPONENTS
    assert await names(bed, "/api/v1/namespaces") == namespaces
    for path in ("/api/v1/nodes", "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets", "/api/v1/pods"):
        assert await names(bed, path) == []


async def test_a_deleted_object_and_a_changed_one_are_as_before(worker_bed: Origin) -> None:
    bed = worker_bed.bed
    role, namespace = await bed.api.get(ROLE), await bed.api.get(NAMESPACE)
    await bed.api.delete(ROLE)
    await bed.api.patch(NAMESPACE, {"metadata": {"labels": {"left": "true"}}})
    await worker_bed.restore()
    for path, before in ((ROLE, role), (NAMESPACE, namespace)):
        after = await bed.api.get(path)
        for each in (before, after):
            del each["metadata"]["resourceVersion"]
        assert after == before


async def test_admission_policies_are_found_and_removed(worker_bed: Origin) -> None:
    bed = worker_bed.bed
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "true"}],
    }
    await bed.api.create(POLICIES, {"metadata": {"name": "left"}, "spec": spec})
    assert await worker_bed.enforced() == ["/registry/validatingadmissionpolicies/left"]
    await worker_bed.restore()
    assert await names(bed, POLICIES) == []
    assert await worker_bed.enforced() == []
