"""``inspect``, ``top`` and ``limits``: flags and arguments of the commands that show the cluster.

The flags have the names that kubectl uses. The work is in ``display``, which a command imports when it runs:
the API client is slow to load, and ``--help`` does not need it.
"""

from typing import Any, Final

import click

from gpushare.cli import completion
from gpushare.cli.lazy import CONTEXT
from gpushare.runtime.flags import with_options

_METRIC: Final = click.option("--metric", metavar="NAME", help="Show every series of this metric.")
_POD: Final = click.argument("pod", required=False, metavar="[POD]", shell_complete=completion.pods)
_NODE: Final = click.option(
    "--node", metavar="NODE", shell_complete=completion.nodes, help="Only pods on this node."
)
_EXPLAIN_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare explain trainer
  kubectl gpushare explain trainer -n team-a -o json"""
_DOCTOR_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare doctor
  kubectl gpushare doctor --node gpu-1
  kubectl gpushare doctor -o json | jq '.checks[] | select(.status != "ok")'"""
_namespace_options = with_options(
    click.option(
        "-n", "--namespace", metavar="NAME", help="Namespace of the pods (default: that of the context)."
    ),
    click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Pods of all namespaces."),
)
_document_option = click.option("-o", "--output", type=click.Choice(["json", "yaml"]), help="Output format.")
_connection_options = with_options(
    click.option(
        "--kubeconfig",
        type=click.Path(),
        metavar="FILE",
        help="Kubeconfig to use (default: KUBECONFIG, ~/.kube/config).",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig to use."),
)
_display_options = with_options(
    click.argument("node", required=False, metavar="[NODE]", shell_complete=completion.nodes),
    click.option(
        "-o", "--output", type=click.Choice(["wide", "json", "yaml", "name"]), help="Output format."
    ),
    click.option("-l", "--selector", default="", metavar="LABELS", help="Only nodes with these labels."),
    click.option("-w", "--watch", is_flag=True, help="Show again after every change, until interrupted."),
    _connection_options,
)


@click.command("inspect", context_settings=CONTEXT)
@click.option("-d", "--details", is_flag=True, help="Show the pods of every node.")
@_display_options
def inspect(*, details: bool, **flags: Any) -> None:
    """Show allocated and total GPU memory of all sharing nodes, or of NODE."""
    from gpushare.cli import display

    display.inspect(display.Flags(**flags), details=details)


@click.group("top", context_settings=CONTEXT)
def top() -> None:
    """Show GPUs by node, in the tables of arena top node, or their usage by pod."""


@top.command("node", context_settings=CONTEXT)
@click.option("-s", "--gpushare", is_flag=True, help="Show the memory of shared GPUs.")
@click.option("-d", "--details", is_flag=True, help="Show the pods of every node.")
@click.option("-u", "--use", is_flag=True, help="Show the usage of GPUs, from the exporters.")
@_METRIC
@_display_options
def top_node(*, gpushare: bool, details: bool, use: bool, metric: str | None, **flags: Any) -> None:
    """Show the GPUs of all nodes, or of NODE."""
    from gpushare.cli import display

    common = display.Flags(**flags)
    if use or metric:
        display.gpu_usage(common, metric, views=gpushare or details)
    else:
        display.top_node(common, gpushare=gpushare, details=details)


@top.command("pod", context_settings=CONTEXT)
@_POD
@_namespace_options
@_NODE
@_METRIC
@_document_option
@click.option("-w", "--watch", is_flag=True, help="Show again every few seconds, until interrupted.")
@_connection_options
def top_pod(
    *, pod: str | None, namespace: str | None, everywhere: bool, metric: str | None, **flags: Any
) -> None:
    """Show the GPU usage of the pods of a namespace, or of POD."""
    from gpushare.cli import display

    common = display.Flags(**flags)
    display.pod_usage(common, common.usage_filter(pod, namespace, everywhere=everywhere), metric)


@click.command("limits", context_settings=CONTEXT)
@_POD
@_namespace_options
@_NODE
@click.option("-o", "--output", type=click.Choice(["wide", "json", "yaml"]), help="Output format.")
@_connection_options
def limits(*, pod: str | None, namespace: str | None, everywhere: bool, **flags: Any) -> None:
    """Show limit, usage, peak and refused allocations of the containers of a namespace, or of POD.

    For a POD without limits it shows the reason.
    """
    from gpushare.cli import display

    common = display.Flags(**flags)
    display.limits(common, common.usage_filter(pod, namespace, everywhere=everywhere))


@click.command("explain", context_settings=CONTEXT, epilog=_EXPLAIN_EXAMPLES)
@click.argument("pod", shell_complete=completion.pending_pods)
@_namespace_options
@_document_option
@_connection_options
def explain(
    *,
    pod: str,
    namespace: str | None,
    everywhere: bool,
    output: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Explain why POD is pending, and what would make it fit.

    Shows the reason for each node and GPU, in the words of the extender, and remedies: a smaller request, the
    pods to evict, a GPU to uncordon, a node to add. Reads only. Exit code 0 with an answer, 1 without.
    """
    from gpushare.cli.cluster import ApiSource
    from gpushare.cli.document import serialized
    from gpushare.cli.explain.answer import answer
    from gpushare.cli.explain.facts import read_facts
    from gpushare.cli.explain.view import document, text

    source = ApiSource(kubeconfig, context)
    found = answer(read_facts(source, pod, source.namespace(namespace, everywhere=everywhere)))
    click.echo(serialized(document(found), output) if output else text(found), nl=False)


@click.command("doctor", context_settings=CONTEXT, epilog=_DOCTOR_EXAMPLES)
@click.option(
    "--node", metavar="NODE", shell_complete=completion.nodes, help="Check this node and its services only."
)
@_document_option
@_connection_options
def doctor(*, node: str | None, output: str | None, kubeconfig: str | None, context: str | None) -> int:
    """Check the installation, from the scheduler to the GPUs.

    Each check has a status (ok, warning, failed, unknown), its cause, and the next command. Changes and
    creates nothing. What may not be read is unknown, with the missing right. Exit code 0 if no check failed,
    1 if one failed, 2 for wrong usage.
    """
    from gpushare.cli.cluster import ApiSource
    from gpushare.cli.doctor.checks import examine, is_healthy
    from gpushare.cli.doctor.gather import gather
    from gpushare.cli.doctor.view import document, text
    from gpushare.cli.document import serialized

    findings = examine(gather(ApiSource(kubeconfig, context), node))
    click.echo(serialized(document(findings), output) if output else text(findings), nl=False)
    return 0 if is_healthy(findings) else 1
