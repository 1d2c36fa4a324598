"""The extender's settings, with units and defaults."""

from dataclasses import dataclass, field

from gpushare.extender.clients import DEFAULT_NAMES
from gpushare.extender.lease import LeaseDurations
from gpushare.model.modes import CGPU_PODS
from gpushare.runtime.tls import TlsFiles


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds: of one bind POST, and after which the API server has certainly ended a request."""

    post_s: float = 3.0
    api_request_s: float = 20.0


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """Built by ``main``; every field has a flag or an environment variable."""

    host: str
    port: int
    ops_host: str
    ops_port: int
    kubeconfig: str | None
    log_level: str
    advertise: str
    identity: str
    lease_namespace: str
    lease_name: str
    lease_durations: LeaseDurations = field(default_factory=LeaseDurations)
    deadlines: Deadlines = field(default_factory=Deadlines)
    events_per_second: float = 20.0
    shortlist: int = 0
    cgpu_pods_per_card: int = CGPU_PODS
    tls: TlsFiles | None = None
    """For ``peer_port`` if it is set, else for ``port``."""
    peer_port: int | None = None
    """Port of forwarded binds; ``port`` then serves plain HTTP on loopback."""
    client_names: tuple[str, ...] = DEFAULT_NAMES
    allow_without_lease: bool = False
