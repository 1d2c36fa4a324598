"""How containers of this node get their GPUs, as the node is now: decides again after each change.

The decision is in ``gpushare.model.device_lists``; here are its facts. The kubelet and the runtime change
with the node's object, specifications with the driver.
"""

import asyncio
from typing import Final

import structlog

from gpushare.adapters.cdi import CdiFiles, CdiFolders
from gpushare.contract import ANN_DEVICE_LIST
from gpushare.deviceplugin.node.state import NodeState
from gpushare.deviceplugin.settings import AgentSettings
from gpushare.model.device_lists import DeviceList, RuntimeFacts, device_list, strategy_in
from gpushare.model.local_node import LocalNode
from gpushare.model.options import DeviceListStrategy

log = structlog.get_logger()

_PERIOD_S: Final = 10.0
_SOURCE: Final = "device-list"


class DeviceListMonitor:
    """Decides for one node, and applies the decision to its state."""

    def __init__(self, settings: AgentSettings, node_state: NodeState) -> None:
        self._choice = settings.device_list_strategy
        self._by_index = settings.device_id_strategy == "index"
        self._folder_names = tuple(map(str, settings.cdi_folders))
        self._folders = CdiFolders(settings.cdi_folders)
        self._node_state = node_state
        self._files = CdiFiles()
        self._node: LocalNode | None = None
        self._decided: DeviceList | None = None

    async def read(self) -> None:
        """Read the specifications, and decide."""
        self._files = await asyncio.to_thread(self._folders.read)
        self._decide()

    def apply_node(self, node: LocalNode) -> None:
        """Decide for the node as the API server shows it."""
        self._node = node
        self._decide()

    async def run(self) -> None:
        """Read the specifications at intervals until cancelled."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            await self.read()

    def _decide(self) -> None:
        shared_gpus = self._node_state.shared_gpus
        if self._node is None or shared_gpus is None or not shared_gpus.cards:
            return
        names = [str(card.index) if self._by_index else card.uuid for card in shared_gpus.cards]
        decided = device_list(self._choice, self._facts(self._node), names, had_cdi=self._had_cdi(self._node))
        if decided != self._decided:
            self._decided = decided
            self._report(decided)
            self._node_state.apply_device_list(decided)
            self._node_state.apply_obstacle(_SOURCE, decided.problem)

    def _facts(self, node: LocalNode) -> RuntimeFacts:
        return RuntimeFacts(
            node.kubelet_version,
            node.runtime_version,
            self._files.specs,
            self._files.unread,
            self._folder_names,
        )

    def _had_cdi(self, node: LocalNode) -> bool:
        """Whether containers got their GPUs by CDI until now, also from an agent before this one."""
        text = self._decided.text if self._decided else node.annotations.get(ANN_DEVICE_LIST, "")
        return strategy_in(text) == DeviceListStrategy.CDI

    def _report(self, decided: DeviceList) -> None:
        if decided.problem:
            log.warning("device_list", strategy=decided.strategy, problem=decided.problem)
        else:
            log.info(
                "device_list",
                strategy=decided.strategy,
                reason=decided.reason,
                keeps_variable=decided.keeps_variable,
            )
