"""``migrate``: its flags. What it needs is imported when it runs."""

from typing import Any, Final

import click

from gpushare.cli.lib.flags import namespace_options, with_source
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
@with_source
def migrate(
    *,
    source: Any,
    namespace: str | None,
    everywhere: bool,
    files: tuple[str, ...],
    unit: str,
    gpu_mib: int | None,
    output: str | None,
) -> int:
    """Report what a move from the Aliyun pair, from ACK or from HAMi needs, and convert manifests.

    For each object: whether it stays, changes, or is not supported, and why. Changes nothing in the cluster.
    Exit code 1 if -o yaml leaves out a manifest or a part of it, or if you may not list a kind.
    """
    from gpushare.cli.lib.screen import Screen, serialized
    from gpushare.cli.migrate import hami, render
    from gpushare.cli.migrate.collect import collect, of_files
    from gpushare.cli.migrate.findings import FindingEffect, migration
    from gpushare.cli.migrate.manifest import is_workload
    from gpushare.overview.memory_units import NodeUnit

    if files and (namespace or everywhere):
        raise click.UsageError(
            "--filename reads files instead of the cluster: leave out --namespace and --all-namespaces"
        )
    screen = Screen()
    notes: dict[str, str] = {}
    selected = None
    if files:
        objects = of_files(files)
    else:
        selected = source.namespace(namespace, everywhere=everywhere)
        objects, notes = source.ask(lambda client: collect(client, selected))
    found = migration(objects, hami.Units(NodeUnit(unit), gpu_mib))
    screen.warn(notes.values())
    screen.note_namespace(found.findings, selected)
    if output != "yaml":
        report = render.report_document(found, notes.values())
        screen.show(serialized(report, "json") if output else render.text(found))
        return 0
    screen.show(render.manifests(found))
    lost = [each for each in found.findings if each.verdict is FindingEffect.UNSUPPORTED]
    screen.warn(f"{each.subject}: not supported: {each.text}" for each in lost)
    return 1 if lost or any(map(is_workload, notes)) else 0
