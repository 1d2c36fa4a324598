"""Completion of nodes and pods, and the programs ``kubectl_complete-*``.

kubectl runs these programs with the words so far and expects the output of Cobra's ``__complete``: one
candidate per line, its description after a tab, and last a colon with a directive that controls completion of
file names (kubernetes, staging/src/k8s.io/kubectl/pkg/cmd/plugin_completion.go).
"""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem, ShellComplete

from gpushare.cli.main import plugin
from gpushare.contract import RESOURCE_MEM, RESOURCE_WHOLE_GPU
from gpushare.errors import GpuShareError

if TYPE_CHECKING:
    import msgspec

_FILES, _NO_FILES = 0, 4
"""Cobra's ShellCompDirectiveDefault and ShellCompDirectiveNoFileComp."""
_PLAIN: Final = "plain"
_TIMEOUT_S: Final = 3.0


def complete(command: click.Command, words: Sequence[str]) -> str:
    """The candidates for the last word, which may be empty, in Cobra's format."""
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
    from gpushare.cli.lib.flags import inspect

    click.echo(complete(inspect, sys.argv[1:]))


def nodes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Nodes with GPUs."""
    del parameter
    from gpushare.overview.cluster import NODES, objects_of
    from gpushare.overview.gpu_pods import read_node

    found = objects_of(map(read_node, _listed(context, NODES, {})), ()).nodes
    cards = (RESOURCE_MEM, RESOURCE_WHOLE_GPU)
    with_gpus = (node for node in found if any(name in (node.status.capacity or {}) for name in cards))
    return _matching(incomplete, (node.metadata.name for node in with_gpus))


def pods(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Pods with GPUs, of the namespace of the flags."""
    del parameter
    from gpushare.overview.cluster import RUNNING, objects_of
    from gpushare.overview.gpu_pods import read_pod

    query = {"fieldSelector": f"spec.nodeName!=,{RUNNING}"}
    found = objects_of((), map(read_pod, _listed(context, None, query))).pods
    return _matching(incomplete, (pod.name for pod in found))


def pending_pods(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Pods without a node that request shared GPUs, of the namespace of the flags."""
    del parameter
    import msgspec

    from gpushare.adapters.kube.wire import WirePod, pod_of

    raws = _listed(context, None, {"fieldSelector": "status.phase=Pending"})
    found = (pod_of(msgspec.json.decode(raw, type=WirePod)) for raw in raws)
    return _matching(incomplete, (pod.name for pod in found if pod and not pod.node))


def _matching(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})


def _listed(context: click.Context, path: str | None, query: dict[str, str]) -> "list[msgspec.Raw]":
    """Objects of the cluster that the flags select, by default pods; empty without a timely answer."""
    from gpushare.overview.cluster import ApiSource, listed, pods_path

    flags = context.params
    source = ApiSource(flags.get("kubeconfig"), flags.get("context"))

    async def found() -> "list[msgspec.Raw]":
        namespace = source.namespace(flags.get("namespace"), everywhere=bool(flags.get("everywhere")))
        async with asyncio.timeout(_TIMEOUT_S):
            async with await source.client() as client:
                return await listed(client, path or pods_path(namespace), query)

    try:
        return asyncio.run(found())
    except (GpuShareError, TimeoutError):
        return []
