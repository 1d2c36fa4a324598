"""The settings of the extender and its webhook: what is derived from them, which exclude each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import click

from gpushare.contract import (
    EXTENDER_DEFAULT_PORT,
    EXTENDER_NAME,
    EXTENDER_OPS_PORT,
    EXTENDER_SERVER_NAME,
    SCHEDULER_CLIENT_NAME,
    SCHEDULER_NAMING_OPS_PORT,
    SCHEDULER_NAMING_PORT,
)
from gpushare.errors import ConfigError
from gpushare.extender.lease import LeaseDurations, Replica
from gpushare.model.modes import CGPU_PODS
from gpushare.model.options import ClusterPlacement, MakeRoom
from gpushare.runtime.listener import ANY_ADDRESS
from gpushare.runtime.settings import (
    LISTENING_PORT,
    ApiServiceHost,
    ApiServicePort,
    FiniteRange,
    Kubeconfig,
    Level,
    ListeningPort,
    LogLevel,
    OpsHost,
    OpsPort,
    Seconds,
    TlsCert,
    TlsFiles,
    TlsKey,
    setting,
)

DEFAULT_NAMES: Final = (SCHEDULER_CLIENT_NAME, EXTENDER_SERVER_NAME)
"""Clients that may call: the scheduler, and the replicas of the extender, which forward binds."""
_LEASE: Final = LeaseDurations()
_LOOPBACK: Final = ("127.0.0.1", "::1")


class _PortOrDefault(click.ParamType[int]):
    """A PORT that is no integer selects the default, as in the Aliyun extender; a flag must be valid."""

    name = "port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            if not _is_variable(param, ctx):
                self.fail(f"{value!r} is not a number", param, ctx)
            click.echo(f"PORT={value!r} is not a number, listening on {EXTENDER_DEFAULT_PORT}", err=True)
            return EXTENDER_DEFAULT_PORT
        return LISTENING_PORT.convert(number, param, ctx)


def _is_variable(param: click.Parameter | None, ctx: click.Context | None) -> bool:
    source = ctx.get_parameter_source(param.name) if ctx and param and param.name else None
    return source is click.core.ParameterSource.ENVIRONMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderSettings:
    """Settings of the extender."""

    host: str = setting(ANY_ADDRESS, help="Address for the scheduler's requests; :: is any.")
    port: Annotated[int, _PortOrDefault()] = setting(
        EXTENDER_DEFAULT_PORT,
        help="Port for the scheduler's requests; 0 selects a free port.",
        env="PORT",
    )
    peer_port: ListeningPort | None = setting(
        None,
        help="Port for binds, and filters of members of pod groups, that other replicas forward, with mutual "
        "TLS; --port then serves plain HTTP, on a loopback address only.  [default: --port]",
    )
    ops_host: OpsHost = ANY_ADDRESS
    ops_port: OpsPort = EXTENDER_OPS_PORT
    kubeconfig: Kubeconfig = None
    log_level: Level = LogLevel.WARN
    advertise_address: str | None = setting(
        None,
        help="host:port where other replicas reach this one.  [default: POD_IP or the host's name, and the "
        "port]",
        env="ADVERTISE_ADDRESS",
    )
    lease_name: str = setting(
        EXTENDER_NAME,
        help="Name of the leader's Lease; the Role of the account names it too.",
        # For tests that run several installations in one cluster.
        is_hidden=True,
    )
    lease_duration: Seconds = setting(
        _LEASE.lease_s, help="Seconds without a renewal after which another replica takes over."
    )
    renew_deadline: Seconds = setting(
        _LEASE.renew_deadline_s, help="Seconds after a renewal during which this replica may bind."
    )
    retry_period: Seconds = setting(_LEASE.retry_s, help="Seconds between reads of the Lease.")
    allow_without_lease: bool = setting(
        default=False,
        help="Bind without a Lease. For a single replica only: nothing prevents another replica from binding "
        "too.",
    )
    bind_timeout: Seconds = setting(
        _LEASE.post_s,
        help="Seconds for one bind request to the API server; less than the scheduler's httpTimeout.",
    )
    api_request_timeout: Seconds = setting(
        _LEASE.api_request_s,
        help="Seconds after which a bind request can have no effect, whatever has delayed it; 60 for API "
        "servers before 1.21.",
    )
    events_per_second: Annotated[float, FiniteRange(min=0.1)] = setting(
        20.0, help="Maximum number of events written per second."
    )
    placement: ClusterPlacement = setting(
        ClusterPlacement.BINPACK,
        help="Placement policy of pods and nodes that name none: binpack, or replay, which compares all "
        "nodes and follows pods without GPUs too.",
    )
    shortlist: Annotated[int, click.IntRange(min=0)] = setting(
        0,
        help="Maximum number of nodes that filter returns: the nodes with the highest scores; 0 returns all "
        "nodes that fit.",
        metavar="NODES",
    )
    cgpu_pods_per_card: Annotated[int, click.IntRange(min=0)] = setting(
        CGPU_PODS,
        help="Maximum number of pods per GPU on nodes of mode cgpu, 20 as with ACK's cGPU; 0 for no limit.",
        metavar="PODS",
    )
    make_room: MakeRoom = setting(
        MakeRoom.NEVER,
        help="Whether the leader evicts pods of lower priority for a pod that fits on no GPU, although a "
        "node has enough units in all: never, dry-run (events only) or evict.",
    )
    make_room_after: Seconds = setting(
        60.0, help="Seconds that a pod waits before room is made for it.", metavar="SECONDS"
    )
    evictions_per_hour: Annotated[int, click.IntRange(min=1)] = setting(
        30, help="Maximum number of pods that are evicted to make room in an hour.", metavar="PODS"
    )
    namespace_evictions_per_hour: Annotated[int, click.IntRange(min=1)] = setting(
        10, help="The same for the pods of one namespace.", metavar="PODS"
    )
    tls_cert: str | None = setting(
        None,
        help="Certificate of the server; with --tls-key and --client-ca, --port requires mutual TLS.",
    )
    tls_key: str | None = setting(None, help="Key of the certificate.")
    client_ca: str | None = setting(None, help="CA certificates that verify clients.")
    client_names: tuple[str, ...] = setting(
        (),
        flag="client-name",
        metavar="NAME",
        help="Common name or DNS name of the certificate of a client that may filter and bind; repeatable.  "
        f"[default: {' and '.join(DEFAULT_NAMES)}]",
    )

    @property
    def lease_durations(self) -> LeaseDurations:
        """The durations of the election and of binds."""
        return LeaseDurations(
            self.lease_duration,
            self.renew_deadline,
            self.retry_period,
            self.bind_timeout,
            self.api_request_timeout,
        )

    @property
    def tls(self) -> TlsFiles | None:
        """The files of mutual TLS: for ``peer_port`` if it is set, else for ``port``."""
        if not (self.tls_cert and self.tls_key and self.client_ca):
            return None
        return TlsFiles(self.tls_cert, self.tls_key, self.client_ca)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Settings of the webhook that names the scheduler of new pods."""

    scheduler_name: str = setting(help="The schedulerName of pods that request GPU memory.")
    host: ApiServiceHost = ANY_ADDRESS
    port: ApiServicePort = SCHEDULER_NAMING_PORT
    tls_cert: TlsCert = ""
    tls_key: TlsKey = ""
    ops_host: OpsHost = ANY_ADDRESS
    ops_port: OpsPort = SCHEDULER_NAMING_OPS_PORT
    log_level: Level = LogLevel.INFO


def replica_of(
    settings: ExtenderSettings, environ: Mapping[str, str], host_name: str, unique: str
) -> Replica:
    """This replica in the election: its name, with a part that no earlier process had, and its address."""
    own = environ.get("POD_IP") or host_name
    port = settings.port if settings.peer_port is None else settings.peer_port
    address = settings.advertise_address or f"{f'[{own}]' if ':' in own else own}:{port}"
    return Replica(f"{environ.get('POD_NAME') or host_name}_{unique}", address)


def check(settings: ExtenderSettings) -> None:
    """Raises ConfigError for combinations that cannot work."""
    check_choices(settings)
    _check_tls(settings)
    _check_peer_port(settings)


def check_choices(settings: ExtenderSettings) -> None:
    """Raises ConfigError for choices of an administrator that exclude each other."""
    _check_durations(settings)
    if settings.shortlist and settings.placement is ClusterPlacement.REPLAY:
        raise ConfigError(
            f"--shortlist {settings.shortlist} excludes --placement replay, which compares all nodes: remove "
            "one of them"
        )


def _check_durations(settings: ExtenderSettings) -> None:
    """Raises ConfigError for durations with which two replicas could bind at the same time."""
    durations = settings.lease_durations
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


def _check_tls(settings: ExtenderSettings) -> None:
    if settings.tls:
        return
    if settings.tls_cert or settings.tls_key or settings.client_ca:
        raise ConfigError("--tls-cert, --tls-key and --client-ca belong together: set all three or none")
    if settings.client_names:
        raise ConfigError(
            f"--client-name {settings.client_names[0]} needs --tls-cert, --tls-key and --client-ca"
        )


def _check_peer_port(settings: ExtenderSettings) -> None:
    if settings.peer_port is None:
        return
    if settings.tls is None:
        raise ConfigError(f"--peer-port {settings.peer_port} needs --tls-cert, --tls-key and --client-ca")
    if settings.host not in _LOOPBACK:
        raise ConfigError(
            f"--host {settings.host} is not allowed with --peer-port, because --port then serves plain HTTP; "
            f"use {' or '.join(_LOOPBACK)}"
        )
