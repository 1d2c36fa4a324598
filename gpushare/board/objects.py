"""Pods of the board, each decoded once, for what ``inspect`` and ``explain`` show of them."""

from dataclasses import dataclass

from msgspec import Raw

from gpushare.adapters.kube.wire import pod_of
from gpushare.model.demand import Malformed
from gpushare.model.objects import Pod
from gpushare.overview.gpu_pods import PodRecord, read_cluster_pod, record_of
from gpushare.overview.objects import ClusterPod, PodOwner


@dataclass(frozen=True, slots=True)
class BoardPod:
    """A pod that requests GPUs: ``record`` once it is bound, ``details`` until then.

    ``core`` is None for a pod that requests only whole GPUs.
    """

    namespace: str
    name: str
    owner: PodOwner
    record: PodRecord | None
    core: Pod | None
    details: ClusterPod | None


def read_board_pod(raw: Raw | bytes) -> BoardPod | Malformed | None:
    """A pod; None if it requests no GPU, or is unbound and requests only whole GPUs."""
    wire = read_cluster_pod(raw)
    if isinstance(wire, Malformed):
        return wire
    core = pod_of(wire)
    record = record_of(wire, core) if wire.spec.node_name else None
    if isinstance(record, Malformed) or (record is None and core is None):
        return record
    meta = wire.metadata
    return BoardPod(meta.namespace, meta.name, wire.owner, record, core, None if record else wire)
