"""The parts of API objects that the checks read."""

from msgspec import Struct, field

from gpushare.adapters.kube.wire import LabelledMeta, WireCondition


class _WorkloadSpec(Struct):
    replicas: int = 1


class Workload(Struct):
    """A Deployment."""

    metadata: LabelledMeta = field(default_factory=LabelledMeta)
    spec: _WorkloadSpec = field(default_factory=_WorkloadSpec)


class _LeaseSpec(Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class Lease(Struct):
    """The Lease of the extender."""

    metadata: LabelledMeta = field(default_factory=LabelledMeta)
    spec: _LeaseSpec = field(default_factory=_LeaseSpec)


class _Port(Struct, rename="camel"):
    port: int = 0
    node_port: int | None = None


class _ServiceSpec(Struct):
    type: str = ""
    ports: list[_Port] | None = None


class Service(Struct):
    """A Service."""

    metadata: LabelledMeta = field(default_factory=LabelledMeta)
    spec: _ServiceSpec = field(default_factory=_ServiceSpec)


class _Conditions(Struct):
    conditions: list[WireCondition] | None = None


class ApiService(Struct):
    """An APIService."""

    metadata: LabelledMeta = field(default_factory=LabelledMeta)
    status: _Conditions = field(default_factory=_Conditions)
