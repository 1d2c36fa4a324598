"""Names that a shell may complete, asked of the cluster.

Where it does not answer soon there are none: words about it would stand in the middle of what a user types.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import click

from gpushare.contract import RESOURCE_MEM, RESOURCE_WHOLE_GPU
from gpushare.errors import GpuShareError

if TYPE_CHECKING:
    import msgspec

_PATIENCE_S: Final = 3.0


def nodes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Nodes with cards."""
    del parameter
    from gpushare.cli.cluster import NODES, objects_of  # noqa: PLC0415 - slow to load, for completion only
    from gpushare.cli.records import read_node  # noqa: PLC0415 - as above

    found = objects_of(map(read_node, _listed(context, NODES, {})), ()).nodes
    cards = (RESOURCE_MEM, RESOURCE_WHOLE_GPU)
    with_cards = (node for node in found if any(name in (node.status.capacity or {}) for name in cards))
    return _beginning(incomplete, (node.metadata.name for node in with_cards))


def pods(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Pods that hold cards, of the namespace where one is given."""
    del parameter
    from gpushare.cli.cluster import PODS, RUNNING, objects_of  # noqa: PLC0415 - as above
    from gpushare.cli.records import read_pod  # noqa: PLC0415 - as above

    namespace = context.params.get("namespace")
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods" if namespace else PODS
    query = {"fieldSelector": f"spec.nodeName!=,{RUNNING}"}
    found = objects_of((), map(read_pod, _listed(context, path, query))).pods
    return _beginning(incomplete, (pod.name for pod in found))


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})


def _listed(context: click.Context, path: str, query: dict[str, str]) -> "list[msgspec.Raw]":
    """A list of the cluster that the flags so far say; empty where it cannot be had soon."""
    from gpushare.adapters.kube.client import KubeClient  # noqa: PLC0415 - as above
    from gpushare.adapters.kube.config import load_access  # noqa: PLC0415 - as above
    from gpushare.cli.cluster import Source, listed  # noqa: PLC0415 - as above

    source = Source(context.params.get("kubeconfig"), context.params.get("context"))

    async def found() -> "list[msgspec.Raw]":
        async with asyncio.timeout(_PATIENCE_S):
            async with KubeClient(await load_access(source.path(), source.context)) as client:
                return await listed(client, path, query)

    try:
        return asyncio.run(found())
    except (GpuShareError, TimeoutError):
        return []
