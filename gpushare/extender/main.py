"""``gpushare extender``: flags and environment to settings, errors to exit codes."""

import os
import socket
import uuid
from typing import Any

import click

from gpushare.contract import EXTENDER_DEFAULT_PORT, EXTENDER_NAME, EXTENDER_OPS_PORT, SYSTEM_NAMESPACE
from gpushare.errors import ConfigError
from gpushare.extender.clients import DEFAULT_NAMES
from gpushare.extender.lease import LeaseDurations
from gpushare.extender.settings import Deadlines, ExtenderSettings
from gpushare.model.modes import CGPU_PODS
from gpushare.runtime.flags import LISTENING_PORT, SECONDS, FiniteRange, daemon_options, run_daemon
from gpushare.runtime.listener import ANY_ADDRESS
from gpushare.runtime.tls import TlsFiles

_LEASE = LeaseDurations()
_DEADLINES = Deadlines()
_PORT_VARIABLE = "PORT"
_LOOPBACK = ("127.0.0.1", "::1")

_EXAMPLES = """\b
Examples:
  gpushare extender --kubeconfig ~/.kube/config --host 127.0.0.1
  gpushare extender --tls-cert tls.crt --tls-key tls.key --client-ca ca.crt
  gpushare extender --host 127.0.0.1 --allow-without-lease --log-level debug"""


class _PortOrDefault(click.ParamType[int]):
    """A PORT that is no integer selects the default, as in the Aliyun extender; a flag must be valid."""

    name = "port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            if value != os.environ.get(_PORT_VARIABLE):
                self.fail(f"{value!r} is not a number", param, ctx)
            click.echo(f"PORT={value!r} is not a number, listening on {EXTENDER_DEFAULT_PORT}", err=True)
            return EXTENDER_DEFAULT_PORT
        return LISTENING_PORT.convert(number, param, ctx)


@click.command(
    context_settings={"show_default": True, "help_option_names": ["-h", "--help"]}, epilog=_EXAMPLES
)
@click.option("--host", default=ANY_ADDRESS, help="Address for the scheduler's requests; :: is any.")
@click.option(
    "--port",
    envvar=_PORT_VARIABLE,
    type=_PortOrDefault(),
    default=EXTENDER_DEFAULT_PORT,
    help="Port for the scheduler's requests; 0 selects a free port.",
)
@daemon_options(EXTENDER_OPS_PORT, log_level="warn")
@click.option(
    "--threadness",
    envvar="THREADNESS",
    hidden=True,
    help="Accepted for compatibility; there are no workers to count.",
)
@click.option(
    "--advertise-address",
    envvar="ADVERTISE_ADDRESS",
    help="host:port where other replicas reach this one.  [default: POD_IP or the host's name, and the port]",
)
@click.option("--lease-namespace", default=SYSTEM_NAMESPACE, help="Namespace of the Lease.")
@click.option("--lease-name", default=EXTENDER_NAME, help="Name of the leader's Lease.")
@click.option(
    "--lease-duration",
    type=SECONDS,
    default=_LEASE.lease_s,
    help="Seconds without a renewal after which another replica takes over.",
)
@click.option(
    "--renew-deadline",
    type=SECONDS,
    default=_LEASE.renew_deadline_s,
    help="Seconds after a renewal during which this replica may bind.",
)
@click.option(
    "--retry-period", type=SECONDS, default=_LEASE.retry_s, help="Seconds between reads of the Lease."
)
@click.option(
    "--allow-without-lease",
    is_flag=True,
    help="Bind without a Lease, and use none. For a single replica: nothing prevents another one from "
    "binding too.",
)
@click.option(
    "--bind-timeout",
    type=SECONDS,
    default=_DEADLINES.post_s,
    help="Seconds for one bind request to the API server; less than the scheduler's httpTimeout.",
)
@click.option(
    "--api-request-timeout",
    type=SECONDS,
    default=_DEADLINES.api_request_s,
    help="Seconds after which a bind request can have no effect, whatever has delayed it; 60 for API "
    "servers before 1.21.",
)
@click.option(
    "--events-per-second",
    type=FiniteRange(min=0.1),
    default=20.0,
    help="Maximum number of events written per second.",
)
@click.option(
    "--shortlist",
    type=click.IntRange(min=0),
    default=0,
    metavar="NODES",
    help="Maximum number of nodes that filter returns, those with the highest scores; 0 for all that fit.",
)
@click.option(
    "--cgpu-pods-per-card",
    type=click.IntRange(min=0),
    default=CGPU_PODS,
    metavar="PODS",
    help="Maximum number of pods per GPU on nodes of mode cgpu, 20 as with ACK's cGPU; 0 for no limit.",
)
@click.option(
    "--tls-cert",
    help="Certificate of the server; with --tls-key and --client-ca, --port requires mutual TLS.",
)
@click.option("--tls-key", help="Key of the certificate.")
@click.option("--client-ca", help="CA certificates that verify clients.")
@click.option(
    "--peer-port",
    type=LISTENING_PORT,
    help="Port for binds that other replicas forward, with mutual TLS; --port then serves plain HTTP, on a "
    "loopback address only.  [default: --port]",
)
@click.option(
    "--client-name",
    "client_names",
    multiple=True,
    metavar="NAME",
    help="Common name or DNS name of the certificate of a client that may filter and bind; repeatable.  "
    f"[default: {' and '.join(DEFAULT_NAMES)}]",
)
def command(**flags: Any) -> None:
    """Serve the calls of kube-scheduler: filter, prioritize, preempt and bind; and inspect."""
    import uvloop

    from gpushare.extender.daemon import run

    run_daemon("extender", lambda: settings_of(flags, os.environ), run, loop=uvloop.new_event_loop)


def settings_of(flags: dict[str, Any], environ: "os._Environ[str] | dict[str, str]") -> ExtenderSettings:
    """Settings from parsed flags. Raises ConfigError for combinations that cannot work."""
    durations = LeaseDurations(
        flags["lease_duration"],
        flags["renew_deadline"],
        flags["retry_period"],
        flags["bind_timeout"],
        flags["api_request_timeout"],
    )
    _check(durations)
    own = environ.get("POD_IP") or socket.gethostname()
    tls = _tls(flags["tls_cert"], flags["tls_key"], flags["client_ca"])
    _check_peer_port(flags["peer_port"], flags["host"], tls)
    port = flags["port"] if flags["peer_port"] is None else flags["peer_port"]
    address = flags["advertise_address"] or f"{f'[{own}]' if ':' in own else own}:{port}"
    return ExtenderSettings(
        host=flags["host"],
        port=flags["port"],
        ops_host=flags["ops_host"],
        ops_port=flags["ops_port"],
        kubeconfig=flags["kubeconfig"],
        log_level=flags["log_level"],
        advertise=address,
        identity=f"{environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4().hex[:8]}",
        lease_namespace=flags["lease_namespace"],
        lease_name=flags["lease_name"],
        lease_durations=durations,
        deadlines=Deadlines(flags["bind_timeout"], flags["api_request_timeout"]),
        events_per_second=flags["events_per_second"],
        shortlist=flags["shortlist"],
        cgpu_pods_per_card=flags["cgpu_pods_per_card"],
        tls=tls,
        peer_port=flags["peer_port"],
        client_names=_client_names(flags["client_names"], tls),
        allow_without_lease=flags["allow_without_lease"],
    )


def _check(durations: LeaseDurations) -> None:
    """Two replicas can never bind at the same time only if the durations are in this order."""
    lease_s = round(durations.lease_s)  # as the Lease has it
    if not 0 < durations.post_s < durations.renew_deadline_s < lease_s:
        raise ConfigError(
            "durations must rise: 0 < --bind-timeout < --renew-deadline < --lease-duration; "
            f"given {durations.post_s:g}, {durations.renew_deadline_s:g}, {lease_s} "
            "(the Lease has whole seconds)"
        )
    if not 0 < durations.retry_s < durations.renew_deadline_s - durations.post_s:
        raise ConfigError(
            f"--retry-period {durations.retry_s:g} must be less than --renew-deadline minus --bind-timeout, "
            f"{durations.renew_deadline_s - durations.post_s:g}"
        )


def _check_peer_port(port: int | None, host: str, tls: TlsFiles | None) -> None:
    if port is None:
        return
    if tls is None:
        raise ConfigError(f"--peer-port {port} needs --tls-cert, --tls-key and --client-ca")
    if host not in _LOOPBACK:
        raise ConfigError(
            f"--host {host} is not allowed with --peer-port, because --port then serves plain HTTP; "
            f"use {' or '.join(_LOOPBACK)}"
        )


def _tls(cert: str | None, key: str | None, client_ca: str | None) -> TlsFiles | None:
    set_paths = [path for path in (cert, key, client_ca) if path]
    if not set_paths:
        return None
    if cert and key and client_ca:
        return TlsFiles(cert, key, client_ca)
    raise ConfigError("--tls-cert, --tls-key and --client-ca belong together: set all three or none")


def _client_names(names: tuple[str, ...], tls: TlsFiles | None) -> tuple[str, ...]:
    if names and tls is None:
        raise ConfigError(f"--client-name {names[0]} needs --tls-cert, --tls-key and --client-ca")
    return names or DEFAULT_NAMES
