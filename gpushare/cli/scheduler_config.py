"""``gpushare scheduler-config``: command line of the renderer in ``kubescheduler.config``."""

import json
from typing import Any

import click
from click.core import ParameterSource

from gpushare.cli.lib.flag_types import SCHEDULER
from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import (
    DEFAULT_OPTIONS,
    DEFAULT_URL,
    DEFAULT_WEIGHT,
    ExtenderConfig,
    Format,
    SchedulerOptions,
    Tls,
    minimal,
    parse_version,
    reads_policy,
    render,
)
from gpushare.runtime.program import CONTEXT

_EXAMPLES = """\b
Examples:
  kubectl gpushare scheduler-config --kubernetes-version 1.36 > config.yaml
  kubectl gpushare scheduler-config --kubernetes-version 1.22 --format policy -o json > policy.json
  kubectl gpushare scheduler-config --kubernetes-version 1.36 --scheduler-name gpushare-scheduler"""
_FORMATS = [form.value for form in Format]
_SAMPLING_NOTE = (
    "note: a Policy has no percentageOfNodesToScore; above 100 nodes the extender sees only a sample"
)


@click.command("scheduler-config", context_settings=CONTEXT, epilog=_EXAMPLES)
@click.option(
    "--kubernetes-version", "kubernetes", required=True, metavar="1.36", help="Version of kube-scheduler."
)
@click.option(
    "--url", default=DEFAULT_URL, show_default=True, help="URL of the extender, as the scheduler reaches it."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default="auto",
    show_default=True,
    help="Kind of configuration; auto selects it by the version.",
)
@click.option(
    "--minimal", "bare", is_flag=True, help="Filter and bind only; a Policy if the version supports it."
)
@click.option(
    "--weight", default=DEFAULT_WEIGHT, show_default=True, help="Weight of the scores of the extender."
)
@click.option("--ca-file", help="CA certificates that the scheduler trusts; required for https.")
@click.option("--cert-file", help="Client certificate of the scheduler.")
@click.option("--key-file", help="Key of the client certificate.")
@click.option("--server-name", help="Name in the certificate of the extender, if it differs from the URL.")
@click.option(
    "--scheduler-name",
    type=SCHEDULER,
    metavar="NAME",
    help="Name of an additional scheduler beside the default one.",
)
@click.option("--kubeconfig", help="Kubeconfig of the scheduler, on its host.")
@click.option(
    "--percentage-of-nodes",
    default=DEFAULT_OPTIONS.percentage_of_nodes,
    show_default=True,
    help="Percentage of nodes that the scheduler scores.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=DEFAULT_OPTIONS.leader_elect,
    show_default=True,
    help="Whether several schedulers elect a leader.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["json", "yaml"]),
    default="yaml",
    show_default=True,
    help="Output format.",
)
def command(**flags: Any) -> None:
    """Print the configuration that makes kube-scheduler call the extender."""
    weighed = click.get_current_context().get_parameter_source("weight") is not ParameterSource.DEFAULT
    if flags["bare"] and weighed:
        raise click.UsageError("--minimal leaves out scores, so --weight has no effect: set one of them")
    version = parse_version(flags["kubernetes"])
    options = SchedulerOptions(
        name=flags["scheduler_name"],
        kubeconfig=flags["kubeconfig"],
        percentage_of_nodes=flags["percentage_of_nodes"],
        leader_elect=flags["leader_elect"],
    )
    form = Format(flags["form"])
    if form is Format.AUTO and flags["bare"] and reads_policy(version):
        form = Format.POLICY
    result = render(_extender(flags), version, options=options, form=form)
    if result["kind"] == "Policy":
        click.echo(_SAMPLING_NOTE, err=True)
    click.echo(_dump(result, flags["output"]), nl=False)


def _extender(flags: dict[str, Any]) -> ExtenderConfig:
    tls = _tls(flags)
    if flags["bare"]:
        if tls:
            raise ConfigError("--minimal uses plain HTTP, as in the ACK documentation: it takes no TLS files")
        return minimal(flags["url"])
    return ExtenderConfig(flags["url"], weight=flags["weight"], tls=tls)


def _tls(flags: dict[str, Any]) -> Tls | None:
    names = ("ca_file", "cert_file", "key_file", "server_name")
    files = {name: flags[name] for name in names}
    return Tls(**files) if any(files.values()) else None


def _dump(content: dict[str, object], output: str) -> str:
    if output == "json":
        return json.dumps(content, indent=2) + "\n"
    from gpushare.model.yaml_text import dump

    return dump(content)
