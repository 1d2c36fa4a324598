"""``gpushare scheduler-config``: the renderer of ``model.scheduler_config`` behind flags."""

import json
from typing import Any

import click

from gpushare.cli.lazy import CONTEXT
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

_FORMATS = [form.value for form in Format]
_NO_PLACE = (
    "note: a Policy cannot say percentageOfNodesToScore; above 100 nodes the extender sees a sample only"
)


@click.command("scheduler-config", context_settings=CONTEXT)
@click.option("--kubernetes-version", "kubernetes", required=True, metavar="1.36", help="Of the scheduler.")
@click.option(
    "--url", default=DEFAULT_URL, show_default=True, help="Of the extender, as the scheduler sees it."
)
@click.option("--format", "form", type=click.Choice(_FORMATS), default="auto", show_default=True)
@click.option("--minimal", "bare", is_flag=True, help="Filter and bind only; a Policy where there are any.")
@click.option("--weight", default=DEFAULT_WEIGHT, show_default=True, help="Of the extender's scores.")
@click.option("--ca-file", help="Whom the scheduler trusts; needed for https.")
@click.option("--cert-file", help="The scheduler's client certificate.")
@click.option("--key-file", help="The key of that certificate.")
@click.option("--server-name", help="The name in the extender's certificate, where the URL has another.")
@click.option("--scheduler-name", help="For a scheduler of its own beside the cluster's.")
@click.option("--kubeconfig", help="The scheduler's kubeconfig, on its host.")
@click.option("--percentage-of-nodes", default=DEFAULT_OPTIONS.percentage_of_nodes, show_default=True)
@click.option("--leader-elect/--no-leader-elect", default=DEFAULT_OPTIONS.leader_elect, show_default=True)
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), default="yaml", show_default=True)
def command(**flags: Any) -> None:
    """Print the configuration that makes kube-scheduler call the extender."""
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
        click.echo(_NO_PLACE, err=True)
    click.echo(_dump(result, flags["output"]), nl=False)


def _extender(flags: dict[str, Any]) -> ExtenderConfig:
    tls = _tls(flags)
    if flags["bare"]:
        if tls:
            raise ConfigError("--minimal is plain HTTP, as in the source documents: it takes no TLS files")
        return minimal(flags["url"])
    return ExtenderConfig(flags["url"], weight=flags["weight"], tls=tls)


def _tls(flags: dict[str, Any]) -> Tls | None:
    names = ("ca_file", "cert_file", "key_file", "server_name")
    files = {name: flags[name] for name in names}
    return Tls(**files) if any(files.values()) else None


def _dump(content: dict[str, object], output: str) -> str:
    if output == "json":
        return json.dumps(content, indent=2) + "\n"
    import yaml  # noqa: PLC0415 - slow to load, and JSON does without

    text: str = yaml.safe_dump(content, sort_keys=False)
    return text
