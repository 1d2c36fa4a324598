"""Services on nodes with a real kubelet: kube-proxy routes to pods, node ports and the API server."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from gpushare.errors import ApiError
from testbed import Bed, DevkitError, Testbed, until
from testbed.control_plane.api import Object, read_text
from testbed.kubelets import KubeletNode, KubeletSpec, add_kubelet

pytestmark = [
    pytest.mark.needs("kubelet"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("nodes"),
]

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
NODE_PORT = 30100
TOOLS = "/tools"
WEB_PORT = 8080
SERVE = f"mkdir /tmp/www && hostname >/tmp/www/index.html && exec busybox httpd -f -p {WEB_PORT} -h /tmp/www"
SLEEP = "exec sleep 1000"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    async with Testbed(kwok=False) as bed:
        yield bed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(bed: Bed) -> list[KubeletNode]:
    """Two nodes; on each a web server and two clients, one of which is in the node's own network."""
    nodes = [await add_kubelet(bed, KubeletSpec(name, services=True)) for name in ("a", "b")]
    pods = [
        *(pod(bed, f"web-{node.name}", node, SERVE) for node in nodes),
        *(pod(bed, f"client-{node.name}", node, SLEEP) for node in nodes),
        *(pod(bed, f"host-client-{node.name}", node, SLEEP, hostNetwork=True) for node in nodes),
    ]
    for each in await bed.create_pods(pods):
        await until_ready(bed, each["metadata"]["name"])
    return nodes


def pod(bed: Bed, name: str, node: KubeletNode, script: str, **spec: Any) -> Object:
    """Return a pod that finds kubectl in ``TOOLS``; one that serves is ready when it does."""
    kubectl = bed.components.tools["kubectl"].path
    serves = (
        {"readinessProbe": {"httpGet": {"port": WEB_PORT}, "periodSeconds": 1}} if script == SERVE else {}
    )
    container = {
        "name": "main",
        "image": "testbed/busybox:1",
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "tools", "mountPath": TOOLS, "readOnly": True}],
        **serves,
    }
    return {
        "metadata": {"name": name, "labels": {"pod": name}},
        "spec": {
            "nodeName": node.name,
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "tools", "hostPath": {"path": str(kubectl.parent)}}],
            "containers": [container],
            **spec,
        },
    }


async def until_ready(bed: Bed, name: str) -> None:
    async def ready() -> bool:
        conditions = (await bed.api.get(f"{PODS}/{name}"))["status"].get("conditions", ())
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    await until(ready, f"pod {name} to be ready")


async def serve(bed: Bed, name: str, target: str, **port: Any) -> str:
    """Put a Service in front of the pod ``target``; return its address."""
    ports = [{"port": 80, "targetPort": WEB_PORT, **port}]
    kind = "NodePort" if port else "ClusterIP"
    spec = {"type": kind, "selector": {"pod": target}, "ports": ports}
    stored = await bed.api.create(SERVICES, {"metadata": {"name": name}, "spec": spec})
    return str(stored["spec"]["clusterIP"])


async def answer(bed: Bed, client: str, url: str) -> str:
    """What the pod ``client`` gets from ``url``, after the rules for it exist."""
    # A connection that starts before the rules exist never succeeds.
    command = ["busybox", "timeout", "2", "wget", "-q", "-O-", url]

    async def ask() -> str:
        try:
            return await bed.kubectl("exec", client, "--", *command)
        except DevkitError as error:
            raise ApiError(str(error)) from error

    return (await until(ask, f"{url} to answer {client}")).strip()


async def in_cluster(bed: Bed, name: str, *arguments: str) -> str:
    """Run kubectl in a pod, with the service account only."""
    return await bed.kubectl("exec", name, "--", f"{TOOLS}/kubectl", "--cache-dir=/tmp", *arguments)


WHO = ("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")


@pytest.mark.parametrize("client", ["client-a", "client-b", "host-client-a", "host-client-b"])
async def test_a_pod_reaches_the_api_server_as_its_service_account(bed: Bed, client: str) -> None:
    assert await in_cluster(bed, client, *WHO) == "system:serviceaccount:default:default"
    reported = await bed.kubectl("exec", client, "--", "sh", "-c", "echo $KUBERNETES_SERVICE_HOST")
    assert reported.strip() == (await bed.api.get(f"{SERVICES}/kubernetes"))["spec"]["clusterIP"]


async def test_a_pod_has_the_permissions_of_its_service_account(bed: Bed) -> None:
    with pytest.raises(DevkitError, match=r'serviceaccount:default:default" cannot list resource "nodes"'):
        await in_cluster(bed, "client-a", "get", "nodes")


async def test_the_address_of_a_service_leads_to_its_pod_from_the_same_node_and_from_another(
    bed: Bed,
) -> None:
    address = await serve(bed, "web", "web-a")
    for client in ("client-a", "client-b", "host-client-a", "host-client-b", "web-a"):
        assert await answer(bed, client, f"http://{address}") == "web-a"


async def test_a_node_port_leads_to_the_pod_on_every_node(bed: Bed, nodes: list[KubeletNode]) -> None:
    await serve(bed, "port", "web-b", nodePort=NODE_PORT)
    assert await outside(nodes, NODE_PORT) == ["web-b", "web-b"]


async def test_a_node_port_leads_to_a_pod_in_the_nodes_own_network(
    bed: Bed, nodes: list[KubeletNode]
) -> None:
    await bed.create_pods([pod(bed, "web-host", nodes[0], SERVE, hostNetwork=True)])
    await until_ready(bed, "web-host")
    await serve(bed, "host-port", "web-host", nodePort=NODE_PORT + 1)
    assert await outside(nodes, NODE_PORT + 1) == [nodes[0].name] * 2


async def test_a_node_without_pods_forwards_a_node_port(bed: Bed) -> None:
    empty = await add_kubelet(bed, KubeletSpec("empty", services=True))
    await serve(bed, "passed-on", "web-a", nodePort=NODE_PORT + 2)
    assert await outside([empty], NODE_PORT + 2) == ["web-a"]


async def outside(nodes: Sequence[KubeletNode], port: int) -> list[str]:
    """The answer of each node on ``port`` to a client outside of the cluster."""
    urls = [f"http://{node.address}:{port}" for node in nodes]
    answers = [await until(partial(read_text, url), f"{url} to answer") for url in urls]
    return [each.strip() for each in answers]


async def test_services_work_again_after_a_reboot(bed: Bed, nodes: list[KubeletNode]) -> None:
    address = await serve(bed, "rebooted", "web-a")
    assert await answer(bed, "client-b", f"http://{address}") == "web-a"
    await nodes[1].reboot()
    assert await answer(bed, "client-b", f"http://{address}") == "web-a"
    assert await in_cluster(bed, "client-b", *WHO) == "system:serviceaccount:default:default"


async def test_pods_find_the_api_server_again_after_its_restart(bed: Bed) -> None:
    await bed.kill("kube-apiserver")
    await bed.start("kube-apiserver")

    async def found() -> bool:
        try:
            return bool(await in_cluster(bed, "client-a", *WHO))
        except DevkitError as error:
            raise ApiError(str(error)) from error

    await until(found, "a pod to reach the API server")


async def test_a_node_without_kube_proxy_has_no_services(bed: Bed, nodes: list[KubeletNode]) -> None:
    plain = await add_kubelet(bed, KubeletSpec("plain"))
    assert "plain.kube-proxy" not in bed.processes
    assert "KUBE-SERVICES" not in await plain.run_text(["iptables", "-t", "nat", "-S"])
    assert "KUBE-SERVICES" in await nodes[0].run_text(["iptables", "-t", "nat", "-S"])


async def test_beside_another_bed_each_pod_reaches_its_own_api_server(
    bed: Bed, nodes: list[KubeletNode]
) -> None:
    async with Testbed(kwok=False) as other:
        node = await add_kubelet(other, KubeletSpec("a", services=True))
        await other.create_pods([pod(other, "client-a", node, SLEEP)])
        await until_ready(other, "client-a")
        for each in (bed, other):
            # Each bed has its certificate authority, and kubectl checks the server's certificate.
            assert await in_cluster(each, "client-a", *WHO) == "system:serviceaccount:default:default"
        await serve(other, "port", "client-a", nodePort=NODE_PORT)
        assert await outside(nodes, NODE_PORT) == ["web-b", "web-b"]
