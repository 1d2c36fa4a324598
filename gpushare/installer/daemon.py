"""The installer as a daemon: the library kept in place on a node, or removed as containers let go of it.

What belongs here: when that is done, and what is told of it. What does not: files (``install``).
"""

import asyncio
from collections.abc import Mapping

import structlog
from prometheus_client import CollectorRegistry

from gpushare.errors import ConfigError
from gpushare.installer.install import install, prune, withdraw
from gpushare.installer.settings import InstallerSettings
from gpushare.isolation.versions import current_version, versions_in_use
from gpushare.monitoring.catalogue import LIBRARY_INFO
from gpushare.monitoring.families import gauge
from gpushare.runtime.admin_server import admin_app, rendering
from gpushare.runtime.daemon import serve, stop_event
from gpushare.runtime.serving import bind_socket

log = structlog.get_logger()


async def run(settings: InstallerSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises GpuShareError where the first round fails."""
    stop = stop_event()
    keeper = LibraryInstaller(settings)
    app = admin_app(rendering(keeper.registry), live=lambda: None, ready=lambda: keeper.problem)
    with bind_socket(settings.ops_host, settings.ops_port) as listener:
        log.info("started", folder=str(settings.folder), ops_port=listener.getsockname()[1])
        await serve(stop, (app, listener), [keeper.run()])


class LibraryInstaller:
    """Round after round; ``problem`` is what is wrong since the last one, None where nothing is."""

    def __init__(self, settings: InstallerSettings) -> None:
        self._settings = settings
        self._kept: Mapping[str, str] = {}
        self.problem: str | None = "the first round is not over"
        self.registry = CollectorRegistry()
        self._info = gauge(LIBRARY_INFO, self.registry)

    async def run(self) -> None:
        """Until it is cancelled. Raises ConfigError where the first round fails."""
        await asyncio.to_thread(self._arrange)
        self.problem = None
        while True:
            await asyncio.sleep(self._settings.interval_s)
            try:
                await asyncio.to_thread(self._round)
            except ConfigError as error:
                self.problem = str(error)
                log.error("round_failed", problem=self.problem)  # noqa: TRY400 - an expected failure has no traceback
            else:
                self.problem = None

    def _round(self) -> None:
        """Versions go before the link changes, and so an interval after the last change of it."""
        kept = prune(self._settings.folder, versions_in_use(self._settings.record))
        if kept != self._kept:
            self._kept = kept
            log.info("versions", kept=dict(kept))
        self._arrange()

    def _arrange(self) -> None:
        folder, package = self._settings.folder, self._settings.package
        if package is None:
            withdraw(folder)
        else:
            install(package, folder)
        self._info.clear()
        if version := current_version(folder):
            self._info.labels(version).set(1)
