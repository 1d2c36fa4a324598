"""``python -m components.render``: prints a cluster's objects as YAML, for use without Pulumi.

It reads the same configuration, a ``Pulumi.<stack>.yaml``, and prints the same objects as the Pulumi
components, in the order in which they can be applied. ``--only`` divides them for a prune or into stages.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import yaml

from components.config import ClusterSettings
from components.manifests import STAGES, everything, kept, removable, stage, without_stages
from components.manifests.parts import Object
from components.stack import from_file, load
from gpushare.errors import ConfigError
from gpushare.model import yaml_text
from gpushare.runtime.program import run

_FAILURE: Final = "render: "
_USAGE: Final = 2
_SUBSETS: Final[Mapping[str, Callable[[ClusterSettings], list[Object]]]] = {
    "kept": kept,
    "removable": removable,
    **{name: partial(stage, name) for name in STAGES},
    "others": without_stages,
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    required=True,
    type=click.Path(path_type=Path),
    help="Configuration of the stack, Pulumi.<stack>.yaml.",
)
@click.option(
    "--kubernetes-version",
    metavar="1.36",
    help="Version of the cluster; default: the version of the configuration.",
)
@click.option(
    "--only",
    type=click.Choice(list(_SUBSETS)),
    help="Some objects: what a prune must keep (tenants, nodes, data, MPS), what it may remove, or a stage: "
    "certificates, then extender, then others.",
)
def command(config: Path, kubernetes_version: str | None, only: str | None) -> None:
    """Print the objects of a cluster as YAML."""
    override = {"kubernetesVersion": kubernetes_version} if kubernetes_version else {}
    try:
        settings = load({**from_file(config), **override})
    except ConfigError as error:
        click.echo(f"{_FAILURE}{config}: {error}", err=True)
        raise SystemExit(_USAGE) from error
    objects = _SUBSETS[only] if only else everything
    click.echo(as_yaml(objects(settings)), nl=False)


def as_yaml(objects: list[Object]) -> str:
    """One document per object, with keys in the order of the builders."""
    return yaml.dump_all(objects, Dumper=Dumper, sort_keys=False, explicit_start=True, width=110)


class Dumper(yaml_text.Dumper):
    """Without anchors, with indented lists and block style for multi-line strings."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - yaml's signature
        """Write an object out at each place, as people do."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - as above
        """Also indent the lists of mappings."""
        super().increase_indent(flow, indentless=False)


def _text(dumper: Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


Dumper.add_representer(str, _text)


if __name__ == "__main__":
    run(command, failure=_FAILURE)
