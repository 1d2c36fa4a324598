"""``gpushare certificates``: makes and renews the certificates between kube-scheduler and the extender.

It creates and fills its Secrets itself, so that private keys are only in the cluster. What a Secret needs is
decided in ``renewals``.
"""

from datetime import UTC, datetime
from typing import Any, Final

import click

from gpushare.adapters.kube.secrets import Secrets
from gpushare.adapters.x509 import LeafRequest
from gpushare.cli.certificates.renewals import authority_of, leaf_of
from gpushare.cli.lib.flag_types import NAMESPACE
from gpushare.cli.lib.flags import with_source
from gpushare.contract import (
    AUTHORITY_SECRET,
    CLIENT_TLS_SECRET,
    EXTENDER_SERVER_NAME,
    EXTENDER_TLS_SECRET,
    SCHEDULER_CLIENT_NAME,
    SYSTEM_NAMESPACE,
)
from gpushare.errors import ConfigError
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare certificates
  kubectl gpushare certificates --context staging --renew"""
LEAVES: Final = {
    EXTENDER_TLS_SECRET: LeafRequest(EXTENDER_SERVER_NAME, is_server=True),
    CLIENT_TLS_SECRET: LeafRequest(SCHEDULER_CLIENT_NAME),
}
"""The certificate in each Secret."""


@click.command("certificates", context_settings={"show_default": True, **CONTEXT}, epilog=_EXAMPLES)
@click.option(
    "--namespace",
    type=NAMESPACE,
    default=SYSTEM_NAMESPACE,
    metavar="NAME",
    help="Namespace of the Secrets.",
)
@click.option("--renew", is_flag=True, help="Renew the certificates now, even if they do not expire soon.")
@with_source
def command(*, source: Any, namespace: str, renew: bool) -> None:
    """Make the certificates between kube-scheduler and the extender, or renew them.

    Missing Secrets are created. A certificate is renewed when a third of its life is left.
    """
    source.ask(lambda client: renew_all(Secrets(client, namespace), datetime.now(UTC), renew=renew))


async def renew_all(secrets: Secrets, now: datetime, *, renew: bool = False) -> None:
    """Make what is missing or due at ``now``. Raises ConfigError or ApiError."""
    stored = {name: await secrets.read(name) for name in (AUTHORITY_SECRET, *LEAVES)}
    for name, secret in stored.items():
        try:
            if name == AUTHORITY_SECRET:
                authority, change = authority_of(secret.data, now)
            else:
                change = leaf_of(secret.data, LEAVES[name], authority, now, renew=renew)
        except ConfigError as error:
            raise ConfigError(f"Secret {name}: {error}") from error
        if change is None:
            click.echo(f"unchanged: {name}")
            continue
        await secrets.write(secret, change.data)
        click.echo(f"changed: {name}: {change.reason}")
