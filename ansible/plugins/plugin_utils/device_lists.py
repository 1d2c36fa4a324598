"""How containers of a host will get their GPUs, from its report. Pure.

The decision is that of the node agent (``gpushare.model.device_lists``). The agent knows the UUIDs of its
GPUs; here, a specification with as many UUIDs as the host has GPUs counts as one of them.
"""

from typing import Final

from ansible_collections.gpushare.nodes.plugins.plugin_utils.checks import Document
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.contract import CDI_KIND, CDI_KINDS
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.model.cdi import CdiSpec
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.model.device_lists import (
    DeviceList,
    RuntimeFacts,
    device_list,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.model.options import (
    DeviceListChoice,
    DeviceListStrategy,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.pci_cards import of_host
from ansible_collections.gpushare.nodes.plugins.plugin_utils.runtimes import runtime_of

_UNNAMED: Final = "the GPUs of this host"
_OF_TOOLKIT: Final = CdiSpec("/etc/cdi/nvidia.yaml", 0, "0.5.0", CDI_KIND, frozenset({_UNNAMED}))


def decided(
    report: Document, choice: str, runtime: str = "auto", *, with_toolkit: bool = False
) -> DeviceList:
    """Return how containers get their GPUs; ``runtime`` is the variable with the container runtime.

    ``with_toolkit`` is as if the toolkit had written its specification already.
    """
    specs = (_OF_TOOLKIT,) if with_toolkit else tuple(map(_spec, report["cdi"]))
    name = runtime_of(report, runtime)
    facts = RuntimeFacts(
        f"v{report['programs']['kubelet'] or ''}",
        f"{name}://{report['programs'][name] or ''}" if name else "",
        specs,
    )
    return device_list(DeviceListChoice(choice), facts, _names(specs, len(of_host(report["gpus"]))))


def _spec(each: Document) -> CdiSpec:
    return CdiSpec(**{**each, "names": frozenset(each["names"])})


def _names(specs: tuple[CdiSpec, ...], gpus: int) -> tuple[str, ...]:
    names = {name for spec in specs if spec.kind in CDI_KINDS for name in spec.names}
    uuids = sorted(name for name in names if name.startswith("GPU-"))
    return tuple(uuids) if len(uuids) >= max(gpus, 1) else (_UNNAMED,)


def uses_cdi(found: DeviceList) -> bool:
    """Return whether containers get their GPUs by CDI."""
    return found.strategy is DeviceListStrategy.CDI and found.problem is None


def of_report(report: Document, choice: str) -> Document:
    """Return ``cdi``, whether containers get their GPUs by CDI, and the ``reason``; a filter."""
    found = decided(report, choice)
    return {"cdi": uses_cdi(found), "reason": found.reason}
