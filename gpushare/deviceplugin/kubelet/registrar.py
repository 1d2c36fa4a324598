"""Keeps one plugin registered with the kubelet for as long as it runs.

A registration is lost when the kubelet restarts (it deletes all sockets in its directory), when the plugin's
socket is removed, and when the kubelet ends its stream of device lists. Each time the server is stopped and
a new one registered. In between there is a pause if the same kubelet may still be handling the end of the
old stream: it would disconnect the new registration as well (``runClient`` in
``pkg/kubelet/cm/devicemanager/plugin/v1beta1/handler.go``).
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from gpushare.adapters.kubelet.folder import FolderWatch, check_folder
from gpushare.adapters.kubelet.registration import register
from gpushare.contract import KUBELET_SOCKET
from gpushare.deviceplugin.core.interface import KubeletPlugin
from gpushare.deviceplugin.kubelet.endpoint import Endpoint, serving
from gpushare.deviceplugin.metrics import PluginMetrics
from gpushare.errors import KubeletError
from gpushare.runtime.reasons import Reasons

log = structlog.get_logger()

_Identity = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class RegistrationBackoff:
    """Waits in seconds: the first and the longest before a new registration, and for the first stream.

    After a registration that lasted for ``most_s``, the next wait is ``first_s`` again.
    """

    first_s: float = 1.0
    most_s: float = 10.0
    listen_s: float = 10.0


class Registrar:
    """Registers one plugin with the kubelet whose sockets are in ``folder``."""

    def __init__(
        self,
        plugin: KubeletPlugin,
        folder: Path,
        metrics: PluginMetrics,
        waits: RegistrationBackoff = RegistrationBackoff(),
    ) -> None:
        self._plugin = plugin
        self._folder = folder
        self._kubelet = folder / KUBELET_SOCKET
        self._socket = folder / plugin.socket
        self._metrics = metrics
        self._waits = waits
        self._pause_s = waits.first_s
        self._reasons = Reasons()
        self._metrics.registered.labels(plugin.resource).set(0)

    async def run(self) -> None:
        """Stay registered until cancelled.

        Raises KubeletError if no socket can be created in the directory, at the start or later. A missing
        directory is waited for; one that was deleted behind its mount never comes back.
        """
        check_folder(self._folder)
        while True:
            try:
                with FolderWatch(self._folder) as names:
                    while True:
                        await self._registration(names)
            except KubeletError as error:
                self._log("folder_lost", str(error))
            await asyncio.sleep(self._waits.first_s)
            if self._folder.exists():
                check_folder(self._folder)

    async def _registration(self, names: FolderWatch) -> None:
        """One registration: waits for the kubelet, serves until the registration is lost, and pauses."""
        while not self._kubelet.exists():
            self._log("kubelet_absent", f"{self._kubelet} does not exist")
            check_folder(self._folder)
            await _until(names, self._kubelet.exists, self._waits.most_s)
        kubelet = _identity(self._kubelet)
        begun = asyncio.get_running_loop().time()
        try:
            await self._serve(names, kubelet)
            reason = "the kubelet no longer listens, or a socket was removed"
        except KubeletError as error:
            reason = str(error)
        self._log("not_registered", reason)
        if asyncio.get_running_loop().time() - begun > self._waits.most_s:
            self._pause_s = self._waits.first_s
        await self._pause(names, kubelet)

    async def _serve(self, names: FolderWatch, kubelet: _Identity) -> None:
        async with serving(self._plugin, self._socket, self._metrics) as endpoint:
            ours = _identity(self._socket)

            def replaced() -> bool:
                return _identity(self._kubelet) != kubelet or _identity(self._socket) != ours

            await _first(self._listened(endpoint), _until(names, replaced))

    async def _listened(self, endpoint: Endpoint) -> None:
        """Register, and return when the kubelet ends its stream. Raises KubeletError."""
        try:
            await register(self._kubelet, endpoint=self._plugin.socket, resource=self._plugin.resource)
            await self._opened(endpoint)
        except KubeletError:
            self._metrics.registrations.labels(self._plugin.resource, "error").inc()
            raise
        self._metrics.registrations.labels(self._plugin.resource, "ok").inc()
        self._up(up=True)
        try:
            await endpoint.ended.wait()
        finally:
            self._up(up=False)

    async def _opened(self, endpoint: Endpoint) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._waits.listen_s):
                await _first(endpoint.opened.wait(), endpoint.ended.wait())
        if not endpoint.opened.is_set():
            raise KubeletError(
                f"registration of {self._plugin.resource}: the kubelet accepted it, "
                "but did not read the list of devices"
            )

    async def _pause(self, names: FolderWatch, kubelet: _Identity) -> None:
        """Wait for the end of the old stream in the kubelet; a restarted kubelet needs no wait."""
        seconds = self._pause_s * random.uniform(1, 1.25)  # noqa: S311 - jitter
        self._pause_s = min(self._waits.most_s, 2 * self._pause_s)
        if await _until(names, lambda: _identity(self._kubelet) != kubelet, seconds):
            self._pause_s = self._waits.first_s

    def _up(self, *, up: bool) -> None:
        self._metrics.registered.labels(self._plugin.resource).set(int(up))
        self._plugin.registered(up=up)
        if up:
            self._reasons.end()
            log.info("registered", resource=self._plugin.resource, socket=str(self._socket))

    def _log(self, event: str, reason: str) -> None:
        """Log a reason once if it occurs several times in a row."""
        if self._reasons.is_new(reason):
            log.warning(event, resource=self._plugin.resource, reason=reason)


def _identity(path: Path) -> _Identity:
    """Distinguishes a socket from its replacement; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


async def _until(names: FolderWatch, condition: Callable[[], bool], within_s: float | None = None) -> bool:
    """Whether the condition became true; it is checked at once and after each change of the directory."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while not condition():
                await anext(names)
            return True
    return False


async def _first(*works: Coroutine[Any, Any, object]) -> None:
    """Return when the first one ends, or raise its error; the others are cancelled."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
