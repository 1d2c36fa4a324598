"""The installer as a daemon: checks the library on a node repeatedly, or removes it once it is unused.

Decides when to act, logs, and serves the metric; ``install`` handles the files.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import structlog

from gpushare.errors import ConfigError
from gpushare.installer.install import install, prune, withdraw
from gpushare.installer.settings import InstallerSettings
from gpushare.isolation.versions import current_version, versions_in_use
from gpushare.monitoring.catalogue import LIBRARY_INFO
from gpushare.monitoring.families import daemon_registry, gauge
from gpushare.runtime.admin_server import AdminRoutes, rendering
from gpushare.runtime.daemon import serve, stop_event
from gpushare.runtime.listener import bind_socket

log = structlog.get_logger()


async def run(settings: InstallerSettings, package: Path | None) -> None:
    """Install the package, or remove the library if it is None. Serve until SIGTERM or SIGINT.

    Raises GpuShareError if the first round fails.
    """
    stop = stop_event()
    installer = LibraryInstaller(settings, package)
    app = AdminRoutes(rendering(installer.registry), live=lambda: None, ready=lambda: installer.problem)
    with bind_socket(settings.ops_host, settings.ops_port) as listener:
        log.info("started", folder=str(settings.folder), ops_port=listener.getsockname()[1])
        await serve(stop, (app, listener), [installer.run()])


class LibraryInstaller:
    """Runs rounds; ``problem`` is the error of the last one, None without an error."""

    def __init__(self, settings: InstallerSettings, package: Path | None) -> None:
        self._settings = settings
        self._package = package
        self._retained: Mapping[str, str] = {}
        self.problem: str | None = "the first round has not finished"
        self.registry = daemon_registry()
        self._info = gauge(LIBRARY_INFO, self.registry)

    async def run(self) -> None:
        """Run rounds until cancelled. Raises ConfigError if the first one fails."""
        await asyncio.to_thread(self._apply)
        self.problem = None
        while True:
            await asyncio.sleep(self._settings.interval_seconds)
            try:
                await asyncio.to_thread(self._round)
            except ConfigError as error:
                self.problem = str(error)
                log.error("round_failed", problem=self.problem)  # noqa: TRY400 - an expected failure has no traceback
            else:
                self.problem = None

    def _round(self) -> None:
        """Versions are removed before the link changes, so at least one interval after its last change."""
        retained = prune(self._settings.folder, versions_in_use(self._settings.record))
        if retained != self._retained:
            self._retained = retained
            log.info("versions", kept=dict(retained))
        self._apply()

    def _apply(self) -> None:
        folder = self._settings.folder
        if self._package is None:
            withdraw(folder)
        else:
            install(self._package, folder)
        self._info.clear()
        if version := current_version(folder):
            self._info.labels(version).set(1)
