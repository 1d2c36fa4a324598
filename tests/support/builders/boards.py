"""Clusters for the board: nodes and pods as in the API, and pages of exporters.

``example()`` has what a board can show; ``large(1000)`` is a big cluster without problems, ``fleet(200)`` one
in use.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

import msgspec

from gpushare.board.health import ControlPlane
from gpushare.board.state import BoardPod, BoardState, Origin, read_board_pod, state_of
from gpushare.board.usage import Live, after_round
from gpushare.contract import AGENT_NAME, ANN_CARDS, ANN_CORDONED_CARDS, ANN_POD, EXTENDER_NAME
from gpushare.model.demand import Malformed
from gpushare.monitoring import catalogue
from gpushare.monitoring.catalogue import Metric
from gpushare.monitoring.page import samples
from gpushare.overview.gpu_pods import read_node
from gpushare.overview.objects import ClusterNode
from gpushare.overview.system_pods import Lease, SystemPod
from tests.support.builders.api_objects import Json, node, pod, share

GIB = 2**30
SERIES = frozenset(map(str, catalogue.EXPORTER))
STARTED = 1_800_000_000.0
UP = 'gpushare_exporter_source_up{source="nvml"} 1'
FAULTY: Final = frozenset({17, 90, 141})
_LOADED: Final = datetime.now(UTC)


@dataclass
class Cluster:
    """API objects, and the page of the exporter of each node; None if it does not answer."""

    nodes: list[Json] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    exporters: dict[str, str | None] = field(default_factory=dict)

    def live(self, at: float, live: Live | None = None) -> Live:
        """After a round of reading the exporters."""
        pages = [page for page in self.exporters.values() if page is not None]
        found = [each for page in pages for each in samples(page, SERIES)]
        silent = [f"exporter e-{name}: no answer" for name, page in self.exporters.items() if page is None]
        return after_round(live or Live(), at, found, silent)

    def state(self, at: float = STARTED + 5, *, live: Live | None = None, **more: Any) -> BoardState:
        """As the board sees it; ``live`` is by default that of the exporters now."""
        origin = Origin("https://k8s.example.com:6443", STARTED)
        usage = self.live(at) if live is None else live
        more = {"control_plane": self.control_plane(at), **more}
        return state_of(origin, at, self.read_nodes(), self.read_pods(), usage, **more)

    def control_plane(self, at: float) -> ControlPlane:
        """Two extenders, of which one leads, and an agent on each node."""
        extenders = [system_pod(f"extender-{each}", EXTENDER_NAME, "cp-1") for each in "ab"]
        agents = [system_pod(f"agent-{name}", AGENT_NAME, name) for name in self.exporters]
        return ControlPlane((*extenders, *agents), lease("extender-a", at))

    def read_nodes(self) -> list[ClusterNode | Malformed]:
        return [read_node(json.dumps(each).encode()) for each in self.nodes]

    def read_pods(self) -> list[BoardPod | Malformed]:
        found = (read_board_pod(json.dumps(each).encode()) for each in self.pods)
        return [each for each in found if each is not None]

    def add_node(
        self,
        name: str,
        model: str,
        units: Sequence[int],
        *,
        unhealthy: Sequence[int] = (),
        cordoned: str = "",
        labels: dict[str, str] | None = None,
        ready: bool = True,
    ) -> None:
        """A node with an idle GPU of each size in GiB."""
        cards = [
            {
                "index": index,
                "units": size,
                "mib": size * 1024 + 500,
                "model": model,
                "uuid": f"GPU-{name}-{index}",
                "healthy": index not in unhealthy,
            }
            for index, size in enumerate(units)
        ]
        annotations = {ANN_CARDS: json.dumps(cards)} | ({ANN_CORDONED_CARDS: cordoned} if cordoned else {})
        amounts = share(sum(units), len(units))
        self.nodes.append(node(name, amounts, labels=labels, annotations=annotations, ready=ready))
        own = [_card(catalogue.CARD_MEMORY, name, index, size * GIB) for index, size in enumerate(units)]
        self.exporters[name] = "\n".join([UP, *own, ""])
        for index in range(len(units)):
            self.add_usage(name, index, 0.25, 0)

    def add_pod(  # noqa: PLR0913 - what a pod can differ in
        self,
        where: str,
        on: str,
        card: int | None,
        units: int,
        used_gib: float | None = None,
        *,
        limited: bool = False,
        owner: tuple[str, str] | None = None,
        waits: str = "",
    ) -> None:
        """A bound pod ``namespace/name``; its exporter reports it if ``used_gib`` is known.

        ``waits`` is why its container does not run.
        """
        namespace, name = where.split("/")
        made = pod(name, on, units, namespace=namespace, index=None if card is None else str(card))
        made["metadata"]["creationTimestamp"] = ago(11 * 3600)
        if waits:
            statuses = [{"name": "main", "state": {"waiting": {"reason": waits}}}]
            made["status"] = {"phase": "Pending", "containerStatuses": statuses}
        made["metadata"]["annotations"][ANN_POD] = str(units)
        if owner:
            made["metadata"]["ownerReferences"] = [{"controller": True, "kind": owner[0], "name": owner[1]}]
        self.pods.append(made)
        if used_gib is not None:
            lines = [_container(catalogue.CONTAINER_ALLOCATED, where, on, card, units * GIB)]
            lines.append(_container(catalogue.CONTAINER_USED, where, on, card, used_gib * GIB))
            busy = round(0.9 * used_gib / units, 2)
            lines.append(_container(catalogue.CONTAINER_UTILIZATION, where, on, card, busy))
            if limited:
                lines.append(_container(catalogue.CONTAINER_LIMIT, where, on, card, units * GIB))
                peak = min(units, used_gib + 0.5) * GIB
                lines.append(_container(catalogue.CONTAINER_PEAK, where, on, card, peak))
            self._report(on, *lines)

    def add_usage(self, on: str, card: int, used_gib: float, utilization: float) -> None:
        """What the driver of a node reports for one GPU, in place of what it has reported before."""
        self._report(
            on,
            _card(catalogue.CARD_USED, on, card, used_gib * GIB),
            _card(catalogue.CARD_UTILIZATION, on, card, utilization),
        )

    def add_pending(self, where: str, units: int, message: str = "", created: str = "") -> None:
        """A pod without a node, with the scheduler's message."""
        namespace, name = where.split("/")
        made = pod(name, None, units, namespace=namespace, phase="Pending")
        made["metadata"]["creationTimestamp"] = created or "2026-11-25T01:00:00Z"
        if message:
            condition = {"type": "PodScheduled", "status": "False", "message": message}
            made["status"]["conditions"] = [condition]
        self.pods.append(made)

    def _report(self, on: str, *lines: str) -> None:
        self.exporters[on] = "\n".join([(self.exporters[on] or "").rstrip("\n"), *lines, ""])


def system_pod(
    name: str, component: str, node: str = "", *, ready: bool = True, words: Sequence[str] = ()
) -> SystemPod:
    """A pod of one of our services; ``words`` are its arguments."""
    wire = {
        "metadata": {"name": name, "labels": {"component": component}},
        "spec": {"nodeName": node, "containers": [{"args": list(words)}]},
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }
    return msgspec.convert(wire, SystemPod)


def lease(holder: str | None, renewed: float) -> Lease:
    """The extender's Lease."""
    at = datetime.fromtimestamp(renewed, UTC).isoformat()
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": at}
    return msgspec.convert({"spec": spec}, Lease)


def _card(metric: Metric, node: str, card: int, number: float) -> str:
    return f'{metric}{{node="{node}",card="{card}",uuid="GPU-{node}-{card}"}} {number}'


def _container(metric: Metric, where: str, node: str, card: int | None, number: float) -> str:
    namespace, name = where.split("/")
    labels = {"node": node, "namespace": namespace, "pod": name, "container": "main", "card": str(card)}
    return f"{metric}{{{','.join(f'{key}={json.dumps(text)}' for key, text in labels.items())}}} {number}"


def ago(seconds: int) -> str:
    """A time before now, as the API writes it; the same in every example of a process."""
    return (_LOADED - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def example() -> Cluster:
    """Four models, five namespaces, one GPU of each state, seven pending pods, one silent exporter."""
    made = Cluster()
    cgpu = {"cgpu": "true"}
    made.add_node("gpu-a10-1", "NVIDIA A10", [22, 22, 22, 22], labels=cgpu)
    made.add_node("gpu-a10-2", "NVIDIA A10", [22, 22, 22, 22], labels=cgpu)
    made.add_node("gpu-t4-1", "Tesla T4", [14, 14], labels=cgpu)
    made.add_node("gpu-t4-2", "Tesla T4", [14, 14])
    made.add_node("gpu-t4-3", "Tesla T4", [14, 14], unhealthy=[1])
    made.add_node("gpu-v100-1", "Tesla V100-SXM2-32GB", [31, 31, 31, 31], unhealthy=[3], cordoned="3")
    made.add_node("gpu-h100-1", "NVIDIA H100 80GB HBM3", [79, 79, 79, 79, 79, 79, 79, 79], labels=cgpu)
    for index in range(4):
        on, job = f"gpu-a10-{1 + index // 2}", ("Job", f"train-resnet-{index // 2}")
        made.add_pod(f"vision/train-resnet-{index}", on, index, 14, 12.1 + index / 3, limited=True, owner=job)
        made.add_pod(
            f"serving/ranker-{index}", on, index, 6, 3.4, limited=True, owner=("StatefulSet", "ranker")
        )
        made.add_usage(on, index, 15.8 + index / 3, 0.71 + index / 20)
    for index in range(3):
        made.add_pod(
            f"notebooks/jupyter-{index}",
            "gpu-t4-1",
            index % 2,
            4,
            0.3,
            limited=True,
            owner=("StatefulSet", "jupyter"),
        )
    made.add_usage("gpu-t4-1", 0, 0.9, 0.02)
    made.add_usage("gpu-t4-1", 1, 0.5, 0)
    made.add_pod("speech/asr-batch", "gpu-t4-2", 0, 10, 9.7)
    made.add_pod("speech/asr-live", "gpu-t4-2", 0, 6, 5.9)
    made.add_usage("gpu-t4-2", 0, 14.0, 0.98)
    made.add_pod("speech/tts", "gpu-t4-3", 0, 8)
    for index in range(3):
        made.add_pod(
            f"vision/segment-{index}", "gpu-v100-1", index, 24, 20.5 - 6 * index, owner=("Job", "segment")
        )
        made.add_usage("gpu-v100-1", index, 20.9 - 6 * index, 0.85 - index / 4)
    for index in range(8):
        made.add_pod(
            f"serving/llm-{index}", "gpu-h100-1", index, 40, 36.4, limited=True, owner=("StatefulSet", "llm")
        )
        made.add_pod(
            f"llm-research/eval-{index}",
            "gpu-h100-1",
            index,
            24 if index % 3 else 32,
            2.5 + 3 * index,
            limited=True,
            owner=("Job", "eval"),
        )
        made.add_usage("gpu-h100-1", index, 39.4 + 3 * index, 0.5 + index / 16)
    made.add_pod(
        "notebooks/sandbox", "gpu-t4-1", 1, 2, 0, owner=("StatefulSet", "sandbox"), waits="ErrImagePull"
    )
    made.exporters["gpu-t4-3"] = None
    message = "0/7 nodes are available: 7 Insufficient GPU Memory in one device."
    made.add_pending("llm-research/finetune-70b", 60, message, ago(12 * 60))
    for index in range(6):
        made.add_pending(f"notebooks/jupyter-{3 + index}", 96, message, ago(3 * 60 - index))
    return made


def large(count: int, gpus: int = 8) -> Cluster:
    """So many nodes, each with two pods on each GPU."""
    made = Cluster()
    for number in range(count):
        name = f"node-{number:04}"
        made.add_node(name, ("NVIDIA A10", "Tesla T4")[number % 2], [22] * gpus)
        for card in range(gpus):
            for each in ("a", "b"):
                made.add_pod(f"team-{number % 20}/pod-{number}-{card}{each}", name, card, 8, 5.5)
            made.add_usage(name, card, 11, 0.5)
    return made


def fleet(count: int) -> Cluster:
    """So many nodes with eight GPUs of three models, more and less busy, with a few faults."""
    made, random = Cluster(), Random(7)
    for number in range(count):
        model, size = (("NVIDIA A10", 22), ("NVIDIA A100-SXM4-80GB", 79), ("NVIDIA L40S", 44))[
            number * 3 // count
        ]
        name = f"gpu-{model.split()[1].split('-')[0].lower()}-{number:03}"
        made.add_node(
            name, model, [size] * 8, unhealthy=[3] if number in FAULTY else [], labels={"cgpu": "true"}
        )
        for card in range(8):
            used = 0.0
            for each in "ab":
                units = random.choice([0, size // 4, size // 3, size // 2])
                if units:
                    used += (amount := round(units * random.uniform(0.2, 0.95), 1))
                    made.add_pod(
                        f"team-{number % 20}/pod-{number}-{card}{each}",
                        name,
                        card,
                        units,
                        amount,
                        limited=True,
                    )
            made.add_usage(name, card, used, round(used / size, 2))
    for number in range(20):
        made.add_pending(f"team-{number % 12}/train-{number}", 80, "", ago(3600 - number))
    return made
