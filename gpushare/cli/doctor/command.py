"""``doctor``: its flags. What it needs is imported when it runs."""

from typing import Any, Final

import click

from gpushare.cli import complete as completion
from gpushare.cli.lib.flag_types import NamespaceType, NodeType
from gpushare.cli.lib.flags import connection_options, document_option
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare doctor
  kubectl gpushare doctor --node gpu-1
  kubectl gpushare doctor --probe --node gpu-1
  kubectl gpushare doctor -o json | jq '.checks[] | select(.status != "ok")'"""


@click.command("doctor", context_settings=CONTEXT, epilog=_EXAMPLES)
@click.option(
    "--node",
    type=NodeType(),
    metavar="NODE",
    shell_complete=completion.nodes,
    help="Check this node and its services only.",
)
@click.option(
    "--probe",
    "probes",
    is_flag=True,
    help="Also run a pod with 1 unit through the whole chain, and remove it.",
)
@click.option(
    "--image", metavar="IMAGE", help="Image of that pod, with sh (default: that of the node agent)."
)
@click.option(
    "-n",
    "--namespace",
    type=NamespaceType(),
    metavar="NAME",
    help="Namespace of that pod (default: that of the context).",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.IntRange(1, 3600),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long that pod may take.",
)
@document_option
@connection_options
def doctor(*, node: str | None, output: str | None, probes: bool, **flags: Any) -> int:
    """Check the installation, from the scheduler to the GPUs.

    Each check has a status (ok, warning, failed, unknown), its cause, and the next command. Changes nothing,
    and creates nothing without --probe. What may not be read is unknown, with the missing right. Exit code 0
    if no check failed, 1 if one failed, 2 for wrong usage.
    """
    from gpushare.cli.doctor.checks import examine, is_healthy
    from gpushare.cli.doctor.collect import gather
    from gpushare.cli.doctor.render import document, text
    from gpushare.overview.cluster import ApiSource
    from gpushare.overview.node_document import serialized

    source = ApiSource(flags["kubeconfig"], flags["context"])
    if not probes and (flags["image"] or flags["namespace"]):
        raise click.UsageError("--image and --namespace are those of the pod of --probe: set --probe too")
    snapshot = gather(source, node)
    findings = examine(snapshot)
    if probes:
        from gpushare.cli.doctor.probe import probe, request_for

        namespace = source.namespace(flags["namespace"], everywhere=False)
        request = request_for(snapshot, namespace, node, image=flags["image"], timeout_s=flags["timeout_s"])
        findings += probe(source, request, snapshot, lambda text: click.echo(text, err=True))
    click.echo(serialized(document(findings), output) if output else text(findings), nl=False)
    return 0 if is_healthy(findings) else 1
