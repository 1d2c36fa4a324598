"""``doctor``: its flags. What it needs is imported when it runs."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import click

from gpushare.cli.lib.flag_types import ALLOWANCE, DURATION, NAMESPACE, Allowance, Duration
from gpushare.cli.lib.flags import document_option, node_option, with_source
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare doctor
  kubectl gpushare doctor --probe --node gpu-1
  kubectl gpushare doctor --max-unready 10% --wait 30m
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
    "--image",
    metavar="IMAGE",
    help="Image of the probe pod; it needs sh (default: the image of the node agent).",
)
@click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    metavar="NAME",
    help="Namespace of the probe pod (default: the namespace of the context).",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.IntRange(1, 3600),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long the probe pod may take.",
)
@click.option(
    "--max-unready",
    "allowance",
    type=ALLOWANCE,
    metavar="NODES",
    help="Allow this many nodes to be not ready, such as 3 or 10%; the fault of one node then fails nothing.",
)
@click.option(
    "--wait",
    type=DURATION,
    metavar="DURATION",
    help="How long to wait until enough nodes are ready, such as 30m.",
)
@document_option
@with_source
def doctor(
    *,
    source: Any,
    node: str | None,
    output: str | None,
    allowance: Allowance | None,
    wait: Duration | None,
    **probing: Any,
) -> int:
    """Check the installation, from the scheduler to the GPUs.

    Each check has a status (ok, warning, failed, unknown), its cause, and the next command. A check without
    the right that it needs is unknown, and names the right. Changes nothing, and creates nothing without
    --probe. Exit code 0 if no check failed, 1 if a check failed or nothing could be checked, 2 for wrong
    usage. With --max-unready, checks of nodes do not set the exit code.
    """
    from gpushare.cli.doctor.checks import OF_NODES, examine, is_healthy
    from gpushare.cli.doctor.collect import collect
    from gpushare.cli.doctor.render import diagnosis_document, text
    from gpushare.cli.lib.screen import serialized

    asked = _ProbeFlags(**probing)
    _check_usage(asked, node, allowance, wait)
    gate = [_gate(source, allowance, wait)] if allowance else []
    installation = source.ask(lambda client: collect(client, node))
    findings = [*gate, *examine(installation), *_probed(source, installation, node, asked)]
    click.echo(serialized(diagnosis_document(findings), output) if output else text(findings), nl=False)
    return 0 if is_healthy(findings, excused=OF_NODES if allowance else ()) else 1


class _ProbeFlags(NamedTuple):
    """Whether to run a pod, and which."""

    probes: bool
    image: str | None
    namespace: str | None
    timeout_s: int


def _check_usage(
    asked: _ProbeFlags, node: str | None, allowance: Allowance | None, wait: Duration | None
) -> None:
    """Raises UsageError for a flag without the one that it belongs to."""
    if not asked.probes and asked.image:
        raise click.UsageError("--image is the image of the probe pod: set --probe too")
    if node and allowance:
        raise click.UsageError("--max-unready counts all nodes: leave out --node")
    if wait and not allowance:
        raise click.UsageError("--wait waits for the nodes that --max-unready counts: set --max-unready too")


def _gate(source: Any, allowance: Allowance, wait: Duration | None) -> Any:
    """The finding about all nodes, after the wait for them."""
    from gpushare.cli.doctor.gate import awaited

    return source.ask(lambda client: awaited(client, allowance, wait.seconds if wait else 0))


def _probed(source: Any, installation: Any, node: str | None, asked: _ProbeFlags) -> Sequence[Any]:
    """The findings of the pod, if there should be one."""
    if not asked.probes:
        return ()
    from gpushare.cli.doctor.probe import probe, request_for

    namespace = source.namespace(asked.namespace)
    request = request_for(installation, namespace, node, image=asked.image, timeout_s=asked.timeout_s)
    return probe(source, request, installation, lambda text: click.echo(text, err=True))
