"""The three resources that the extender watches, and the conversion of their objects."""

from gpushare.adapters.kube.watch import Resource
from gpushare.adapters.kube.wire import WireConfigMap, WireNode, WirePod, core_node, pod_of
from gpushare.contract import SYSTEM_NAMESPACE, UNHEALTHY_KEY, UNHEALTHY_PREFIX
from gpushare.model.objects import Node, Pod


def _pod(wire: WirePod) -> tuple[str, Pod] | None:
    pod = pod_of(wire)
    return (pod.uid, pod) if pod else None


def _node(wire: WireNode) -> tuple[str, Node]:
    return wire.metadata.name, core_node(wire)


def _unhealthy(wire: WireConfigMap) -> tuple[str, str] | None:
    """Return the node name and the list of its unhealthy GPUs as text."""
    name = wire.metadata.name
    if not name.startswith(UNHEALTHY_PREFIX):
        return None
    return name.removeprefix(UNHEALTHY_PREFIX), (wire.data or {}).get(UNHEALTHY_KEY, "")


PODS: Resource[Pod] = Resource("pods", "/api/v1/pods", WirePod, _pod)
NODES: Resource[Node] = Resource("nodes", "/api/v1/nodes", WireNode, _node)
UNHEALTHY: Resource[str] = Resource(
    "configmaps", f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/configmaps", WireConfigMap, _unhealthy
)
