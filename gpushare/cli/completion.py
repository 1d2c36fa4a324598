"""``kubectl_complete-gpushare`` and its like: what the last word of a plugin's command line may become.

kubectl runs them with the words so far, and reads what Cobra's own ``__complete`` would print: a candidate a
line, its description after a tab, and at last a colon with a number that tells the shell what else to offer
(kubernetes, staging/src/k8s.io/kubectl/pkg/cmd/plugin_completion.go).
"""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import click
from click.shell_completion import CompletionItem, ShellComplete

from gpushare.cli.main import plugin
from gpushare.contract import RESOURCE_MEM, RESOURCE_WHOLE_GPU
from gpushare.errors import GpuShareError

_FILES, _NO_FILES = 0, 4
"""Cobra's ShellCompDirectiveDefault and ShellCompDirectiveNoFileComp."""
_PLAIN: Final = "plain"


def complete(command: click.Command, words: Sequence[str]) -> str:
    """The candidates for the last of the words, which may be empty."""
    *before, last = words or ("",)
    found = ShellComplete(command, {}, command.name or "", "").get_completions(before, last)
    lines = [_line(item) for item in found if item.type == _PLAIN]
    files = any(item.type != _PLAIN for item in found)
    return "\n".join([*lines, f":{_FILES if files else _NO_FILES}"])


def _line(item: CompletionItem) -> str:
    return f"{item.value}\t{item.help}" if item.help else str(item.value)


def plugin_main() -> None:
    """``kubectl gpushare …``."""
    click.echo(complete(plugin, sys.argv[1:]))


def inspect_main() -> None:
    """``kubectl inspect gpushare …`` and ``kubectl inspect cgpu …``."""
    from gpushare.cli.inspect import command  # noqa: PLC0415 - not needed by the other entry point

    click.echo(complete(command, sys.argv[1:]))


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
    from gpushare.cli.cluster import ApiSource, listed  # noqa: PLC0415 - as above

    source = ApiSource(context.params.get("kubeconfig"), context.params.get("context"))

    async def found() -> "list[msgspec.Raw]":
        async with asyncio.timeout(_PATIENCE_S):
            async with KubeClient(await load_access(source.path(), source.context)) as client:
                return await listed(client, path, query)

    try:
        return asyncio.run(found())
    except (GpuShareError, TimeoutError):
        return []
