"""``fit``: its flags. What it needs is imported when it runs."""

from typing import Any, Final

import click

from gpushare.cli.lib.flag_types import UNITS
from gpushare.cli.lib.flags import document_option, namespace_option, with_source
from gpushare.runtime.program import CONTEXT

_MOST_GPUS: Final = 128
_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare fit 24
  kubectl gpushare fit 24 --gpus 2 -o json"""


@click.command("fit", context_settings=CONTEXT, epilog=_EXAMPLES)
@click.argument("units", type=UNITS)
@click.option(
    "--gpus",
    type=click.IntRange(1, _MOST_GPUS),
    default=1,
    show_default=True,
    metavar="N",
    help="GPUs of the pod; each must have UNITS free.",
)
@namespace_option
@document_option
@with_source
def fit(*, source: Any, units: int, gpus: int, namespace: str | None, output: str | None) -> None:
    """Show how many pods with UNITS on each GPU would fit now, and the largest free block.

    Counts GPUs and their units, not CPU, memory, quotas and selectors. The rights of one namespace are enough
    where the metrics API runs.
    """
    from gpushare.cli.fit import render
    from gpushare.cli.fit.collect import collect
    from gpushare.cli.lib.screen import Screen, serialized
    from gpushare.cli.lib.text_table import text_of

    own = source.namespace(namespace)
    found = source.ask(lambda client: collect(client, own, units, gpus))
    screen = Screen()
    if output:
        screen.show(serialized(render.fits_document(found), output))
    elif found.items:
        screen.show(f"{render.summary(found)}\n{text_of(render.table(found))}")
    else:
        screen.report("No node shares GPUs.")
    screen.warn(found.notes)
