"""``gpushare certificates``: makes and renews the certificates of our servers, and of kube-scheduler.

It creates and fills its Secrets itself, so that private keys are only in the cluster. What a Secret needs is
decided in ``renewals``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

from gpushare.adapters.kube.api_services import ApiServices
from gpushare.adapters.kube.client import KubeClient
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
    METRICS_API_NAME,
    METRICS_AUTHORITY_SECRET,
    METRICS_SERVER_NAME,
    METRICS_TLS_SECRET,
    SCHEDULER_CLIENT_NAME,
    SYSTEM_NAMESPACE,
)
from gpushare.errors import ConfigError
from gpushare.runtime.program import CONTEXT

_EXAMPLES: Final = """\b
Examples:
  kubectl gpushare certificates
  kubectl gpushare certificates --context staging --renew
  kubectl gpushare certificates --api-service v1.usage.gpushare.io --renew"""
LEAVES: Final = {
    EXTENDER_TLS_SECRET: LeafRequest(EXTENDER_SERVER_NAME, is_server=True),
    CLIENT_TLS_SECRET: LeafRequest(SCHEDULER_CLIENT_NAME),
}
"""The certificate in each Secret."""


@dataclass(frozen=True, slots=True)
class Issue:
    """The Secret of an authority, and the certificates that it signs, by their Secrets."""

    authority: str
    leaves: Mapping[str, LeafRequest]


SCHEDULING: Final = Issue(AUTHORITY_SECRET, LEAVES)
METRICS_API: Final = Issue(
    METRICS_AUTHORITY_SECRET, {METRICS_TLS_SECRET: LeafRequest(METRICS_SERVER_NAME, is_server=True)}
)


@click.command("certificates", context_settings={"show_default": True, **CONTEXT}, epilog=_EXAMPLES)
@click.option(
    "--namespace",
    type=NAMESPACE,
    default=SYSTEM_NAMESPACE,
    metavar="NAME",
    help="Namespace of the Secrets.",
)
@click.option("--renew", is_flag=True, help="Renew the certificates now, even if they do not expire soon.")
@click.option(
    "--api-service",
    "api_services",
    multiple=True,
    metavar="NAME",
    help="Make the certificate of the metrics API instead, and write its CA to this APIService; repeatable.",
)
@with_source
def command(*, source: Any, namespace: str, renew: bool, api_services: tuple[str, ...]) -> None:
    """Make the certificates between kube-scheduler and the extender, or renew them.

    Missing Secrets are created. A certificate is renewed when a third of its life is left.
    """

    async def work(client: KubeClient) -> None:
        secrets, now = Secrets(client, namespace), datetime.now(UTC)
        issue = METRICS_API if api_services else SCHEDULING
        authority = await renew_all(secrets, now, issue, renew=renew)
        if api_services:
            await trust(ApiServices(client, METRICS_API_NAME), api_services, authority)

    source.ask(work)


async def renew_all(
    secrets: Secrets, now: datetime, issue: Issue = SCHEDULING, *, renew: bool = False
) -> bytes:
    """Make what is missing or due at ``now``; the certificate of the authority.

    Raises ConfigError or ApiError.
    """
    stored = {name: await secrets.read(name) for name in (issue.authority, *issue.leaves)}
    for name, secret in stored.items():
        try:
            if name == issue.authority:
                authority, change = authority_of(secret.data, now)
            else:
                change = leaf_of(secret.data, issue.leaves[name], authority, now, renew=renew)
        except ConfigError as error:
            raise ConfigError(f"Secret {name}: {error}") from error
        if change is None:
            click.echo(f"unchanged: {name}")
            continue
        await secrets.write(secret, change.data)
        click.echo(f"changed: {name}: {change.reason}")
    return authority.cert


async def trust(services: ApiServices, names: tuple[str, ...], ca: bytes) -> None:
    """Write the CA certificates to these APIServices, if they differ. Raises ConfigError or ApiError."""
    for name in names:
        found = await services.read(name)
        if found.ca_bundle == ca:
            click.echo(f"unchanged: {name}")
            continue
        await services.write_ca(found, ca)
        click.echo(f"changed: {name}: caBundle")
