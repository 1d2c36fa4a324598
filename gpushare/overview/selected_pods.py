"""The pods that the flags of a command select: by name, by labels, of a namespace or of all."""

from msgspec import Raw

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.wire import any_pod_of
from gpushare.errors import ConfigError
from gpushare.model.objects import Pod
from gpushare.overview.lists import RUNNING, decoded, listed, named_pods, pods_path, where
from gpushare.overview.objects import ClusterPod
from gpushare.overview.usage import UsageFilter


async def pods_named(client: KubeClient, selected: UsageFilter, name: str) -> list[Pod]:
    """The pods of that name on the selected node. Raises ConfigError if there is none, ApiError."""
    raws = await named_pods(client, name, selected.namespace)
    found = [pod for pod in _pods(raws, selected.namespace) if selected.node in (None, pod.node)]
    if not found:
        on = f" on node {selected.node}" if selected.node else ""
        raise ConfigError(f"there is no pod {name} in {where(selected.namespace)}{on}")
    return found


async def running_pods(client: KubeClient, selected: UsageFilter, labels: str = "") -> list[Pod]:
    """The bound pods with these labels that have not finished, also those without GPUs. Raises ApiError."""
    node = f"spec.nodeName={selected.node}" if selected.node else "spec.nodeName!="
    query = {"fieldSelector": f"{node},{RUNNING}"} | ({"labelSelector": labels} if labels else {})
    return _pods(await listed(client, pods_path(selected.namespace), query), selected.namespace)


def _pods(raws: list[Raw], namespace: str | None) -> list[Pod]:
    return [any_pod_of(each) for each in decoded(raws, ClusterPod, pods_path(namespace))]
