"""Whether a container declares what would undo the share that it was allocated. Pure.

The rules are in ``gpushare.model.conflicts``.
"""

from collections.abc import Iterable

from gpushare.deviceplugin.core.allocations import Allocation, Allocations
from gpushare.deviceplugin.core.interface import Rejected
from gpushare.deviceplugin.core.limits import MpsShare, envs_of, mps_share_of
from gpushare.model.conflicts import Circumstances, Conflict
from gpushare.model.device_lists import DeviceList
from gpushare.model.local_node import GpuPod
from gpushare.model.modes import Mode
from gpushare.model.options import DeviceListStrategy


def rejection(
    gpu_pod: GpuPod, allocation: Allocation, device_list: DeviceList, mps: MpsShare | None
) -> Rejected | None:
    """The rejection of a container with conflicts; None without any.

    ``allocation`` has its enforcement, ``device_list`` is how it gets its GPUs, and ``mps`` are its
    MPS limits.
    """
    found = _conflicts(gpu_pod, allocation, device_list, mps)
    if not found:
        return None
    subject = f"pod {gpu_pod.pod.full_name}, container {allocation.container}"
    return Rejected(found[0].rule.reason, f"{subject} {in_words(found)}")


def late_rejection(
    allocations: Allocations, gpu_pod: GpuPod, allocation: Allocation, device_list: DeviceList
) -> Rejected | None:
    """The rejection that a container should have got, which got the response for an equal one."""
    return rejection(gpu_pod, allocation, device_list, _mps_share(allocations, gpu_pod, allocation))


def _mps_share(allocations: Allocations, gpu_pod: GpuPod, allocation: Allocation) -> MpsShare | None:
    present = [uuid for uuid, _ in allocation.cards if allocations.index_of(uuid) is not None]
    if allocations.mode is not Mode.MPS or gpu_pod.demand is None or len(present) != 1:
        return None
    return mps_share_of(allocations, allocation, gpu_pod.demand)


def hiding_the_library(gpu_pod: GpuPod, container: str) -> list[Conflict]:
    """The conflicts for which programs of a limited container may run without the isolation library."""
    limited, unlimited = (
        Circumstances(DeviceList(DeviceListStrategy.CDI), limited=each) for each in (True, False)
    )
    declared = gpu_pod.conflicts.get(container, ())
    return [each for each in declared if each.matters(limited) and not each.matters(unlimited)]


def in_words(conflicts: Iterable[Conflict]) -> str:
    """What a container declares, with effects and remedies; follows its name."""
    return "; it ".join(each.text for each in conflicts)


def _conflicts(
    gpu_pod: GpuPod, allocation: Allocation, device_list: DeviceList, mps: MpsShare | None
) -> list[Conflict]:
    variables = frozenset(envs_of(mps) if mps else ())
    circumstances = Circumstances(device_list, allocation.enforcement is not None, variables)
    declared = gpu_pod.conflicts.get(allocation.container, ())
    return [conflict for conflict in declared if conflict.matters(circumstances)]
