"""The parts of API objects that the checks read."""

from typing import Any

from msgspec import Struct, field

from gpushare.adapters.kube.wire import LabelledMeta, WireCondition


class NodeInfo(Struct, rename="camel"):
    """Versions on a node."""

    kubelet_version: str = ""
    container_runtime_version: str = ""


class _NodeStatus(Struct, rename="camel"):
    capacity: dict[str, Any] | None = None
    allocatable: dict[str, Any] | None = None
    conditions: list[WireCondition] | None = None
    node_info: NodeInfo = field(default_factory=NodeInfo)


class CheckedNode(Struct):
    """A node."""

    metadata: LabelledMeta = field(default_factory=LabelledMeta)
    status: _NodeStatus = field(default_factory=_NodeStatus)

    @property
    def ready(self) -> bool:
        """Whether its kubelet reports it ready."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())


class _ConfigMapVolume(Struct):
    name: str = ""


class _Volume(Struct, rename="camel"):
    name: str = ""
    config_map: _ConfigMapVolume | None = None


class _Mount(Struct, rename="camel"):
    name: str = ""
    mount_path: str = ""


class Container(Struct, rename="camel"):
    """A container and its command line."""

    name: str = ""
    image: str = ""
    command: list[str] | None = None
    args: list[str] | None = None
    volume_mounts: list[_Mount] | None = None

    @property
    def words(self) -> list[str]:
        """The command line."""
        return [*(self.command or ()), *(self.args or ())]

    def flag(self, name: str) -> str | None:
        """The value of ``--name=value``; None without the flag."""
        prefix = f"--{name}="
        return next((word.removeprefix(prefix) for word in self.words if word.startswith(prefix)), None)


class _PodSpec(Struct, rename="camel"):
    node_name: str = ""
    host_network: bool = False
    containers: list[Container] = field(default_factory=list)
    volumes: list[_Volume] | None = None


class _PodStatus(Struct):
    phase: str = ""
    conditions: list[WireCondition] | None = None


class SystemPod(Struct):
    """A pod of kube-system."""

    metadata: LabelledMeta = field(default_factory=LabelledMeta)
    spec: _PodSpec = field(default_factory=_PodSpec)
    status: _PodStatus = field(default_factory=_PodStatus)

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def component(self) -> str:
        """The value of the label ``component``, by which services are found."""
        return (self.metadata.labels or {}).get("component", "")

    @property
    def ready(self) -> bool:
        """Whether it is ready."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())


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
