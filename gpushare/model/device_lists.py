"""How containers of a node get their GPUs: the decision of ``auto``, and why. Pure.

CDI is the best way where all that takes part can do it: a GPU by CDI needs no option of NVIDIA's toolkit,
stays when the CPU manager changes a container, and works in a user namespace. Elsewhere ``auto`` is
``volume-mounts``.

What does not belong here: reading specifications, and what a container gets (``core.response`` of the agent).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gpushare.contract import CDI_FOLDERS, CDI_KIND, CDI_KIND_OF_OPERATOR, CDI_KINDS
from gpushare.model.cdi import CdiSpec, clashes, devices_of
from gpushare.model.options import DeviceListChoice, DeviceListStrategy

FIRST_MINOR_WITH_CDI: Final = 29
"""Since 1.29 the kubelet passes on CDI devices of device plugins by default (DevicePluginCDIDevices)."""
_FLAG: Final = "--device-list-strategy"
_KUBELET: Final = re.compile(r"v1\.(\d+)\.")
_RUNTIME: Final = re.compile(r"(?P<name>[a-z-]+)://v?(?P<version>\d+\.\d+\.\d+)")
_NEWEST_SPEC: Final = {
    # The CDI library in go.mod of each release, from the Go module proxy, read on 2026-11-28: containerd
    # 2.0.0 (2024-11-05) has 0.8.0, 2.0.3 0.8.1, 2.0.5 (2025-04-17) 1.0.0, 2.1.0 (2025-05-07) and 2.2.0
    # (2025-11-06) 1.0.1, 2.2.1 (2025-12-18), 2.2.2 and 2.3.0 (2026-04-30) 1.1.0. ``enable_cdi`` is true from
    # 2.0 on (``internal/cri/config/config_unix.go``), and false in 1.7.
    # Of 1.7, these releases were read: 1.7.0 (2023-03-10) has 0.5.4, 1.7.13 (2024-01-31) 0.6.2, 1.7.17
    # (2024-05-16) 0.7.2, 1.7.27 (2025-03-17) 0.8.1.
    "containerd": (
        ((1, 7, 0), "0.5.0"),
        ((1, 7, 13), "0.6.0"),
        ((1, 7, 17), "0.7.0"),
        ((1, 7, 27), "0.8.0"),
        ((2, 0, 0), "0.8.0"),
        ((2, 0, 5), "1.0.0"),
        ((2, 2, 1), "1.1.0"),
    ),
    # CRI-O cannot switch CDI off. The main branch that became 1.31 (2024-09) has 0.8.0, 1.34.0 1.0.1, 1.35.2
    # (2026-04-01) and 1.36.1 1.1.0. Older ones were not verified: 0.5.0 is what every library of 2023 reads.
    "cri-o": (
        ((0, 0, 0), "0.5.0"),
        ((1, 31, 0), "0.8.0"),
        ((1, 34, 0), "1.0.0"),
        ((1, 35, 2), "1.1.0"),
    ),
}
"""The newest version of a CDI specification that a runtime reads, from a version of the runtime on."""
_OF_OPERATOR: Final = (
    f"the GPU Operator has enabled CDI on this node ({CDI_KIND_OF_OPERATOR}), where a mount selects no GPU"
)
"""Its toolkit writes this kind, and enables CDI in containerd, only with ``cdi.enabled``. In that mode the
default runtime is not NVIDIA's, which knows no other device (``cmd/nvidia-ctk-installer`` of 1.20.1)."""
_NAMED: Final = 3
"""GPUs that a reason names at most."""


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """What decides: the versions in the node's status, and the CDI specifications on the node.

    ``kubelet`` is like ``v1.36.3``, ``runtime`` like ``containerd://2.1.4``; both are empty if unknown.
    ``folders`` are those of specifications, ``unread`` says which files are none.
    """

    kubelet: str = ""
    runtime: str = ""
    specs: tuple[CdiSpec, ...] = ()
    unread: tuple[str, ...] = ()
    folders: tuple[str, ...] = CDI_FOLDERS


@dataclass(frozen=True, slots=True)
class DeviceList:
    """How containers get their GPUs, and why.

    ``cdi_kind`` is the kind of their CDI devices. ``keeps_variable`` is whether their specification leaves a
    pod's own ``NVIDIA_VISIBLE_DEVICES`` for NVIDIA's runtime. ``problem`` is why new containers would get
    no GPU.
    """

    strategy: DeviceListStrategy = DeviceListStrategy.MOUNTS
    reason: str = ""
    cdi_kind: str = CDI_KIND
    keeps_variable: bool = False
    problem: str | None = None

    @property
    def lets_pods_choose(self) -> bool:
        """Whether a pod's own ``NVIDIA_VISIBLE_DEVICES`` counts, and not what the device plugin says."""
        return self.strategy is DeviceListStrategy.ENV or self.keeps_variable

    @property
    def text(self) -> str:
        """The strategy and why, as the node's annotation has it; empty before a decision."""
        return f"{self.strategy}: {self.reason}" if self.reason else ""


BY_MOUNTS: Final = DeviceList()
"""Before a decision."""


def device_list(
    choice: DeviceListChoice, facts: RuntimeFacts, names: Sequence[str], *, had_cdi: bool = False
) -> DeviceList:
    """How containers get the GPUs with these names, UUIDs or indices.

    ``had_cdi`` is whether they have got them by CDI so far. A node without a specification then takes no new
    pods, as one where the GPU Operator has enabled CDI: with a mount alone, a runtime that is not NVIDIA's
    would start them without a GPU.
    """
    if choice is DeviceListChoice.AUTO:
        return _decided(facts, names, had_cdi=had_cdi)
    reason = f"set by {_FLAG}"
    if choice is DeviceListChoice.ENV:
        return DeviceList(DeviceListStrategy.ENV, reason)
    if choice is DeviceListChoice.MOUNTS:
        return DeviceList(DeviceListStrategy.MOUNTS, reason)
    found = _specs_naming(facts.specs, names)
    return _by_cdi(found, reason) if found else DeviceList(DeviceListStrategy.CDI, reason)


def ignores_cdi(kubelet: str) -> bool:
    """Whether a kubelet passes no CDI devices on; False if its version is not known."""
    found = _KUBELET.match(kubelet)
    return found is not None and int(found[1]) < FIRST_MINOR_WITH_CDI


def strategy_in(text: str) -> str:
    """The strategy in the annotation of a node; empty without one."""
    return text.partition(":")[0]


def _decided(facts: RuntimeFacts, names: Sequence[str], *, had_cdi: bool) -> DeviceList:
    operator = any(spec.kind == CDI_KIND_OF_OPERATOR for spec in facts.specs)
    if obstacle := _kubelet_obstacle(facts.kubelet) or _runtime_obstacle(facts.runtime, operator=operator):
        return DeviceList(DeviceListStrategy.MOUNTS, obstacle)
    newest = newest_spec(facts.runtime)
    assert newest  # noqa: S101 - there is no obstacle
    found = _specs_naming([spec for spec in facts.specs if spec.is_readable(newest)], names)
    if found:
        paths = " and ".join(dict.fromkeys(spec.path for spec in found))
        return _by_cdi(
            found,
            f"{paths} names all GPUs as {found[0].kind}, and kubelet {facts.kubelet} and "
            f"{_shown(facts.runtime)} pass them on",
        )
    missing = _why_no_spec(facts, names, newest)
    if not (had_cdi or operator):
        return DeviceList(DeviceListStrategy.MOUNTS, missing)
    cause = "containers have got their GPUs by CDI so far" if had_cdi else _OF_OPERATOR
    problem = (
        f"{cause}, and {missing}: write the specification (nvidia-ctk "
        f"cdi generate), or start the device plugin with {_FLAG}={DeviceListStrategy.MOUNTS}"
    )
    return DeviceList(DeviceListStrategy.CDI, missing, problem=problem)


def _by_cdi(specs: Sequence[CdiSpec], reason: str) -> DeviceList:
    keeps = not all(spec.hides_variable for spec in specs)
    return DeviceList(DeviceListStrategy.CDI, reason, specs[0].kind, keeps_variable=keeps)


def _kubelet_obstacle(kubelet: str) -> str | None:
    if not _KUBELET.match(kubelet):
        return f"the version of the kubelet is not known ({kubelet or 'none'})"
    if ignores_cdi(kubelet):
        first = f"1.{FIRST_MINOR_WITH_CDI}"
        return f"kubelet {kubelet} ignores CDI devices of a device plugin, which {first} passes on"
    return None


def _runtime_obstacle(runtime: str, *, operator: bool) -> str | None:
    if newest_spec(runtime) is None:
        return f"whether {_shown(runtime) or 'the container runtime'} passes on CDI devices is not known"
    if runtime.startswith("containerd://1.") and not operator:
        return (
            f"{_shown(runtime)} reads CDI specifications only if its configuration enables it (enable_cdi), "
            f"which the node does not show; if it does, set {_FLAG}={DeviceListStrategy.CDI}"
        )
    return None


def newest_spec(runtime: str) -> str | None:
    """The newest version of a CDI specification that the runtime reads; None if it reads none."""
    found = _RUNTIME.match(runtime)
    if not found:
        return None
    version = tuple(map(int, found["version"].split(".")))
    rows = [newest for first, newest in _NEWEST_SPEC.get(found["name"], ()) if version >= first]
    return rows[-1] if rows else None


def _shown(runtime: str) -> str:
    return runtime.replace("://", " ")


def _specs_naming(specs: Sequence[CdiSpec], names: Sequence[str]) -> list[CdiSpec]:
    """The specifications of the GPUs, of one kind that has them all; empty without such a kind."""
    for kind in _kinds(specs):
        devices = devices_of(specs, kind)
        if names and all(name in devices for name in names):
            return [devices[name] for name in names]
    return []


def _kinds(specs: Sequence[CdiSpec]) -> list[str]:
    present = {spec.kind for spec in specs}
    return [kind for kind in CDI_KINDS if kind in present]


def _why_no_spec(facts: RuntimeFacts, names: Sequence[str], newest: str) -> str:
    """Why there is no specification of the GPUs for a runtime that reads versions up to ``newest``."""
    causes = [*_too_new(facts, names, newest), *_clashing(facts, names), *facts.unread]
    where = " and ".join(facts.folders)
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    why = f" ({'; '.join(causes)})" if causes else ""
    return f"no CDI specification in {where} names {shown}{why}"


def _too_new(facts: RuntimeFacts, names: Sequence[str], newest: str) -> Iterator[str]:
    for spec in facts.specs:
        if not spec.is_readable(newest) and spec.names.intersection(names):
            known = f"{_shown(facts.runtime)} reads those up to {newest}"
            yield f"{spec.path} has version {spec.version}, and {known}"


def _clashing(facts: RuntimeFacts, names: Sequence[str]) -> Iterator[str]:
    for kind in _kinds(facts.specs):
        for name, (one, other) in clashes(facts.specs, kind).items():
            if name in names:
                yield f"{one} and {other} both name {kind}={name}: remove one"
