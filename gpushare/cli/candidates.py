"""Names that a shell may complete, asked of the cluster.

Where it does not answer soon there are none: words about it would stand in the middle of what a user types.
"""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import click

from gpushare.contract import RESOURCE_MEM, RESOURCE_WHOLE_GPU
from gpushare.errors import GpuShareError

if TYPE_CHECKING:
    from gpushare.cli.cluster import Objects

_PATIENCE_S: Final = 3.0


def nodes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Nodes with cards."""
    del parameter
    found = _look(context)
    cards = (RESOURCE_MEM, RESOURCE_WHOLE_GPU)
    names = (
        each.metadata.name
        for each in (found.nodes if found else ())
        if any(name in (each.status.capacity or {}) for name in cards)
    )
    return _beginning(incomplete, names)


def pods(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Pods that hold cards, of the namespace where one is given."""
    del parameter
    found = _look(context)
    namespace = context.params.get("namespace")
    names = (
        each.name for each in (found.pods if found else ()) if not namespace or each.namespace == namespace
    )
    return _beginning(incomplete, names)


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})


def _look(context: click.Context) -> "Objects | None":
    """The cluster, as the flags that are there already say."""
    from gpushare.adapters.kube.client import KubeClient  # noqa: PLC0415 - slow to load, for completion only
    from gpushare.adapters.kube.config import load_access  # noqa: PLC0415 - as above
    from gpushare.cli.cluster import Source, look  # noqa: PLC0415 - as above

    source = Source(context.params.get("kubeconfig"), context.params.get("context"))

    async def found() -> "Objects":
        async with asyncio.timeout(_PATIENCE_S):
            async with KubeClient(await load_access(source.path(), source.context)) as client:
                return await look(client, None)

    try:
        return asyncio.run(found())
    except (GpuShareError, TimeoutError):
        return None
