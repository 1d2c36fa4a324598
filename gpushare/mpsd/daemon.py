"""The MPS daemon of a node: one control daemon for each card.

It asks no API, and belongs to no other daemon of ours: whoever ends it ends all CUDA programs of the node.
"""

import asyncio
from typing import Final

import structlog

from gpushare.adapters.nvml import Nvml
from gpushare.errors import ConfigError, GpuError
from gpushare.model.hardware import Inventory
from gpushare.mpsd.metrics import MpsMetrics
from gpushare.mpsd.settings import MpsSettings
from gpushare.mpsd.supervisor import Supervisor
from gpushare.ports import MpsDriver
from gpushare.runtime.admin_server import admin_app, rendering
from gpushare.runtime.daemon import StopStep, serve, stop_event
from gpushare.runtime.serving import bind_socket

log = structlog.get_logger()

_EVERYBODY = 0o1777
_CLOSE_S: Final = 40.0
"""Longer than a control daemon takes to end, and shorter than the grace period of the pod."""


async def run(settings: MpsSettings) -> None:
    """Serve until SIGTERM or SIGINT, then end the control daemons. Raises ConfigError."""
    stop = stop_event()
    open_folders(settings)
    with bind_socket(settings.ops_host, settings.ops_port) as listener:
        async with Nvml() as driver:
            node = ControlDaemons(settings, driver)
            app = admin_app(rendering(node.metrics.registry), live=lambda: None, ready=node.unready)
            log.info("started", folder=str(settings.state), ops_port=listener.getsockname()[1])
            await serve(stop, (app, listener), [node.run()], close=StopStep(node.stop, _CLOSE_S))


def open_folders(settings: MpsSettings) -> None:
    """Programs of any user share memory with the servers. Raises ConfigError."""
    try:
        settings.state.mkdir(parents=True, exist_ok=True)
        settings.shm.mkdir(parents=True, exist_ok=True)
        settings.shm.chmod(_EVERYBODY)
    except OSError as error:
        raise ConfigError(f"cannot use {error.filename}: {error.strerror}") from error


class ControlDaemons:
    """The cards of one machine. A card that was seen once keeps its control daemon while that lives."""

    def __init__(self, settings: MpsSettings, driver: MpsDriver) -> None:
        self._settings = settings
        self._driver = driver
        self._well: frozenset[str] = frozenset()
        self._supervisors: dict[str, Supervisor] = {}
        self._trouble: str | None = "the cards were not read yet"
        self.metrics = MpsMetrics()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                for supervisor in await self._look():
                    tasks.create_task(supervisor.run(self._settings.interval_s))
                await asyncio.sleep(self._settings.interval_s)

    async def stop(self) -> None:
        """End all control daemons, at the same time."""
        await asyncio.gather(*(each.stop() for each in self._supervisors.values()))

    def unready(self) -> str | None:
        """What is wrong, None where nothing is."""
        cards = [f"card {uuid}: {each.problem}" for uuid, each in self._supervisors.items() if each.problem]
        troubles = [self._trouble] if self._trouble else []
        return "; ".join([*troubles, *cards]) or None

    async def _look(self) -> list[Supervisor]:
        """The cards as they are; returns those whom nobody runs yet."""
        try:
            inventory = await self._driver.inventory()
            self._well = fit(inventory) - (await self._driver.unhealthy()).keys()
        except GpuError as error:
            if str(error) != self._trouble:
                log.warning("cards_not_read", reason=str(error))
            self._trouble = str(error)
            return []
        except Exception as error:  # a defect costs one look; the daemon's end would cost all programs
            log.exception("look_failed")
            self._trouble = f"{type(error).__name__}: {error}"
            return []
        self._trouble = None
        return [self._add(uuid) for uuid in sorted(self._well - self._supervisors.keys())]

    def _add(self, uuid: str) -> Supervisor:
        made = Supervisor(uuid, self._settings.state, self._driver, self.metrics, lambda: uuid in self._well)
        self._supervisors[uuid] = made
        return made


def fit(inventory: Inventory) -> frozenset[str]:
    """The cards that MPS can share: those that MIG does not divide already."""
    return frozenset(gpu.uuid for gpu in inventory.gpus if not gpu.mig)
