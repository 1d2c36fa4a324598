"""Our services in kube-system: command lines, labels and states of their pods, and the extender's Lease."""

from msgspec import Struct, field

from gpushare.adapters.kube.wire import LabelledMeta, WireCondition


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
    def unschedulable(self) -> str:
        """Why no node takes it, as its scheduler says; "" if it has a node, or no scheduler has seen it."""
        found = (c for c in self.status.conditions or () if c.type == "PodScheduled" and c.status == "False")
        return next((c.message for c in found), "")

    @property
    def ready(self) -> bool:
        """Whether it is ready."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())


class _LeaseSpec(Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class Lease(Struct):
    """The Lease of the extender."""

    metadata: LabelledMeta = field(default_factory=LabelledMeta)
    spec: _LeaseSpec = field(default_factory=_LeaseSpec)
