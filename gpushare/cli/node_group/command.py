"""``node-group``: its flags. It needs no cluster."""

from typing import Any, Final

import click

from gpushare.cli.lib.flag_types import UNITS
from gpushare.runtime.program import CONTEXT

_MOST_GPUS: Final = 128
_PROVIDERS: Final = ("aws", "azure", "gke", "cluster-api")
_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare node-group --provider aws --gpus 4 --units 22
  kubectl gpushare node-group --provider azure --gpus 1 --units 14 --label cgpu=true
  kubectl gpushare node-group --provider cluster-api --gpus 8 --units 79 --label tier=gpu-gold -o json"""


class _Label(click.ParamType[tuple[str, str]]):
    name = "label"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Fails for a text without ``=`` or without a key."""
        if isinstance(value, tuple):
            return value
        key, equals, text = str(value).partition("=")
        if not key or not equals or "," in text:
            self.fail(f"{value!r} is not a label such as tier=gpu-gold", param, ctx)
        return key, text


@click.command("node-group", context_settings=CONTEXT, epilog=_EXAMPLES)
@click.option(
    "--provider",
    type=click.Choice(_PROVIDERS),
    required=True,
    help="Who makes the nodes: tags of an Auto Scaling group (aws) or of a scale set (azure), labels of a "
    "node pool (gke), annotations of a MachineDeployment (cluster-api).",
)
@click.option(
    "--gpus", type=click.IntRange(1, _MOST_GPUS), required=True, metavar="N", help="GPUs of one node."
)
@click.option(
    "--units",
    type=UNITS,
    required=True,
    metavar="N",
    help="Units of one GPU, as inspect shows them: GiB, rounded down, so 22 for an L4.",
)
@click.option(
    "--label",
    "labels",
    type=_Label(),
    multiple=True,
    metavar="KEY=VALUE",
    help="A label of the nodes; gpushare=true unless one selects a mode.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["json", "yaml"]),
    default="yaml",
    show_default=True,
    help="Output format.",
)
def command(
    *, provider: str, gpus: int, units: int, labels: tuple[tuple[str, str], ...], output: str
) -> None:
    """Print what Cluster Autoscaler must know of a group without nodes: tags, labels or annotations.

    From them it makes the template of a node, which it asks the extender about.
    """
    from gpushare.cli.lib.screen import serialized
    from gpushare.cli.node_group.entries import PROVIDERS, group_of
    from gpushare.errors import InvalidRequest

    try:
        group = group_of(gpus, units, dict(labels))
    except InvalidRequest as error:
        raise click.UsageError(f"{error}; set another --label") from error
    click.echo(serialized(PROVIDERS[provider](group), output), nl=False)
