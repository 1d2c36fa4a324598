"""``migrate``: its flags. What it needs is imported when it runs."""

from typing import Final

import click

from gpushare.cli.lib.flags import connection_options, namespace_options
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare migrate -A
  kubectl gpushare migrate -f manifests/
  helm template chart | kubectl gpushare migrate -f - -o yaml
  kubectl gpushare migrate -n team-a -o yaml > converted.yaml"""


@click.command("migrate", context_settings=CONTEXT, epilog=_EXAMPLES)
@namespace_options
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="PATH",
    help="Read manifests from this file or folder, or - for standard input, instead of the cluster; may be "
    "repeated.",
)
@click.option(
    "--unit",
    type=click.Choice(["GiB", "MiB"]),
    default="GiB",
    show_default=True,
    help="Unit of the nodes that will share.",
)
@click.option(
    "--gpu-mib",
    type=click.IntRange(min=1),
    metavar="MIB",
    help="Memory of one GPU, to convert nvidia.com/gpumem-percentage.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["json", "yaml"]),
    help="json: the report; yaml: the converted manifests.",
)
@connection_options
def migrate(  # noqa: PLR0913 - the flags
    *,
    namespace: str | None,
    everywhere: bool,
    files: tuple[str, ...],
    unit: str,
    gpu_mib: int | None,
    output: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Report what a move from the Aliyun gpushare pair or from HAMi needs, and convert manifests.

    For each object: whether it stays, changes, or is not supported, and why. Changes nothing in the cluster.
    Exit code 1 if -o yaml leaves out a manifest or something that one has, or may not list its kind.
    """
    from gpushare.cli.lib import screen as display
    from gpushare.cli.migrate import collect as gather
    from gpushare.cli.migrate import hami, manifest, survey
    from gpushare.cli.migrate import render as view
    from gpushare.overview.memory_units import NodeUnit
    from gpushare.overview.node_document import serialized

    if files and (namespace or everywhere):
        raise click.UsageError(
            "--filename reads files instead of the cluster: leave out --namespace and --all-namespaces"
        )
    flags = display.Flags(output=output, kubeconfig=kubeconfig, context=context)
    screen = display.Screen(redraw=False)
    notes: dict[str, str] = {}
    selected = None
    if files:
        objects = gather.of_files(files)
    else:
        selected = flags.source.namespace(namespace, everywhere=everywhere)
        objects, notes = gather.of_cluster(flags.source, selected)
    found = survey.survey(objects, hami.Units(NodeUnit(unit), gpu_mib))
    screen.warn(notes.values())
    display.note_namespace(screen, found.findings, selected)
    if output != "yaml":
        screen.show(serialized(view.document(found, notes.values()), "json") if output else view.text(found))
        return 0
    screen.show(view.manifests(found))
    lost = [each for each in found.findings if each.verdict is survey.Verdict.UNSUPPORTED]
    screen.warn(f"{each.subject}: not supported: {each.text}" for each in lost)
    return 1 if lost or any(map(manifest.is_workload, notes)) else 0
