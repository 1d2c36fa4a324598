"""``doctor``: its flags. What it needs is imported when it runs."""

from typing import Any, Final

import click

from gpushare.cli.lib.flag_types import NAMESPACE
from gpushare.cli.lib.flags import document_option, node_option, with_source
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare doctor
  kubectl gpushare doctor --node gpu-1
  kubectl gpushare doctor --probe --node gpu-1
  kubectl gpushare doctor -o json | jq '.checks[] | select(.status != "ok")'"""


@click.command("doctor", context_settings=CONTEXT, epilog=_EXAMPLES)
@node_option("Check this node and its services only.")
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
    type=NAMESPACE,
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
@with_source
def doctor(
    *,
    source: Any,
    node: str | None,
    output: str | None,
    probes: bool,
    image: str | None,
    namespace: str | None,
    timeout_s: int,
) -> int:
    """Check the installation, from the scheduler to the GPUs.

    Each check has a status (ok, warning, failed, unknown), its cause, and the next command. Changes nothing,
    and creates nothing without --probe. What may not be read is unknown, with the missing right. Exit code 0
    if no check failed, 1 if one failed, 2 for wrong usage.
    """
    from gpushare.cli.doctor.checks import examine, is_healthy
    from gpushare.cli.doctor.collect import collect
    from gpushare.cli.doctor.render import diagnosis_document, text
    from gpushare.cli.lib.screen import serialized

    if not probes and (image or namespace):
        raise click.UsageError("--image and --namespace are those of the pod of --probe: set --probe too")
    installation = source.ask(lambda client: collect(client, node))
    findings = examine(installation)
    if probes:
        from gpushare.cli.doctor.probe import probe, request_for

        request = request_for(
            installation, source.namespace(namespace), node, image=image, timeout_s=timeout_s
        )
        findings += probe(source, request, installation, lambda text: click.echo(text, err=True))
    click.echo(serialized(diagnosis_document(findings), output) if output else text(findings), nl=False)
    return 0 if is_healthy(findings) else 1
