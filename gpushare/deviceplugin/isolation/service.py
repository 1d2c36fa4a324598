"""What limits the containers of one node, wired: limit files, launch rates, sizes of regions, and MPS."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from gpushare.adapters.pids import hosts_proc
from gpushare.deviceplugin.derived import response_settings
from gpushare.deviceplugin.isolation.files import MPS, EnforcementFiles, MpsStatus
from gpushare.deviceplugin.isolation.manager import EnforcementManager
from gpushare.deviceplugin.isolation.pacer import COMPUTE, Pacer, ProcessDriver
from gpushare.deviceplugin.isolation.process_owners import ProcessOwners
from gpushare.deviceplugin.isolation.region_sizes import RegionSizes
from gpushare.deviceplugin.isolation.reporter import UncountedReporter
from gpushare.deviceplugin.metrics import DegradedMode, PluginMetrics
from gpushare.deviceplugin.node.checkpoint import Observer
from gpushare.deviceplugin.node.record import AllocationRecord
from gpushare.deviceplugin.settings import AgentSettings
from gpushare.model.modes import Mode
from gpushare.ports import KubeEvent


class IsolationService:
    """``manager`` enforces the limits; the other parts exist only where the node has what they need.

    ``record_event`` receives events about pods.
    """

    def __init__(
        self,
        settings: AgentSettings,
        observer: Observer,
        record: AllocationRecord,
        driver: ProcessDriver,
        metrics: PluginMetrics,
        *,
        record_event: Callable[[KubeEvent], None],
    ) -> None:
        response = response_settings(settings)
        proc = settings.proc_root or hosts_proc()
        self._files = EnforcementFiles(response.folders, proc)
        self._mps = MpsStatus(response.mps)
        self.manager = EnforcementManager(
            observer, record, self._files, self._mps, metrics, paces=proc is not None
        )
        self._pacer: Pacer | None = None
        self._region_sizes: RegionSizes | None = None
        if not self._files.visible:
            return
        node_state = observer.node_state
        self._region_sizes = RegionSizes(
            node_state, self.manager, self._files, metrics, record_event=record_event
        )
        if proc:
            owners = ProcessOwners(self._files.folders.state, proc)
            reporter = UncountedReporter(node_state, proc, record_event=record_event)
            self._pacer = Pacer(node_state, self.manager, driver, owners, reporter, metrics)

    def report_missing(self, degraded: DegradedMode) -> None:
        """Report a missing mount, which the manifest of the Aliyun plugin lacks, and missing rights."""
        if self._files.visible and not self._pacer:
            degraded.begin(
                COMPUTE,
                "no compute share is enforced, and uncounted processes are not reported: hostPID is missing",
            )
        if not self._mps.visible:
            degraded.begin(MPS, f"containers on a node of mode {Mode.MPS} do not use MPS")

    @property
    def notices(self) -> tuple[str, ...]:
        """The lines of ``/readyz`` about regions."""
        return self._region_sizes.notices if self._region_sizes else ()

    def jobs(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """The jobs by name; each runs until cancelled. The names are values of a metric label."""
        # Limit files come first: after the registration a restarted kubelet starts containers at once.
        yield "isolation", self.manager.run()
        yield "obstacles", self.manager.watch_obstacles()
        if self._pacer:
            yield "pacing", self._pacer.run()
        if self._region_sizes:
            yield "regions", self._region_sizes.run()
