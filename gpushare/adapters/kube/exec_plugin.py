"""Credentials from an exec plugin of a kubeconfig, such as those of the cloud providers.

See https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins.
"""

import asyncio
import math
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog

from gpushare.adapters.kube.access import bearer
from gpushare.adapters.kube.kubeconfig import ExecConfig
from gpushare.errors import ConfigError

log = structlog.get_logger()

_GROUP: Final = "client.authentication.k8s.io/"
_TIMEOUT_S: Final = 60.0
"""For plugins that cannot ask the user."""
_RETRY_S: Final = 10.0
_MAX_OUTPUT: Final = 500


@dataclass(frozen=True, slots=True)
class ExecCredentials:
    """A token, or a client certificate with its key (PEM), or both. ``expires_at`` is in Unix time."""

    token: str = ""
    cert: str = ""
    key: str = ""
    expires_at: float = math.inf


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    status: _Status | None = None


class RenewedToken:
    """The token of a plugin, obtained again when it expires or is rejected.

    If that fails, the last one stays in use, and the next attempt is after ten seconds. A renewed client
    certificate is not used. A caller that stops waiting does not end the plugin.
    """

    def __init__(
        self,
        first: ExecCredentials,
        obtain: Callable[[], Awaitable[ExecCredentials]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._obtain = obtain
        self._clock = clock
        self._renewal: asyncio.Task[None] | None = None
        self._retry_at = 0.0
        self._last_error = ""
        self._use(first)

    async def header(self) -> str | None:
        """Return the Authorization header; None if the plugin returned a certificate only."""
        if self._clock() >= self._renew_at:
            if self._renewal is None or self._renewal.done():
                self._renewal = asyncio.create_task(self._renew())
            await asyncio.shield(self._renewal)
        return bearer(self._token) if self._token else None

    def reject(self) -> None:
        """Obtain another token for the next request, or after the pause of a failure."""
        self._renew_at = self._retry_at

    def _use(self, credentials: ExecCredentials) -> None:
        self._token = credentials.token
        self._renew_at = credentials.expires_at

    async def _renew(self) -> None:
        try:
            self._use(await self._obtain())
            self._last_error = ""
        except ConfigError as error:
            self._renew_at = self._retry_at = self._clock() + _RETRY_S
            if self._last_error != str(error):
                log.warning("token_not_renewed", reason=str(error))
            self._last_error = str(error)


async def obtain(plugin: ExecConfig, command: str, cluster: Mapping[str, Any] | None) -> ExecCredentials:
    """Run the plugin. ``command`` is the program; ``cluster`` is passed on. Raises ConfigError."""
    try:
        return _credentials(await _output(plugin, command, cluster), plugin.api_version)
    except ConfigError as error:
        raise ConfigError(f"{name_of(command)}: {error}") from error


def name_of(command: str) -> str:
    """Return what errors call the plugin."""
    return f"exec plugin {command}"


async def _output(plugin: ExecConfig, command: str, cluster: Mapping[str, Any] | None) -> bytes:
    if not plugin.api_version.startswith(_GROUP):
        raise ConfigError(f"apiVersion {plugin.api_version!r} is not like {_GROUP}v1")
    interactive = plugin.interactive_mode != "Never" and bool(sys.stdin) and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not interactive:
        raise ConfigError("interactiveMode is Always, and standard input is not a terminal")
    spec = {"interactive": interactive} | ({"cluster": cluster} if cluster else {})
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environ = {
        **os.environ,
        **{each.name: each.value or "" for each in plugin.env or ()},
        "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
    }
    try:
        return await _ran([command, *(plugin.args or ())], environ, interactive=interactive)
    except OSError as error:
        hint = f": {plugin.install_hint.strip()}" if plugin.install_hint else ""
        raise ConfigError(f"{error.strerror}{hint}") from error


async def _ran(command: Sequence[str], environ: Mapping[str, str], *, interactive: bool) -> bytes:
    """Return what the program prints; interactive ones use our terminal."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environ,
        stdin=None if interactive else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=None if interactive else asyncio.subprocess.PIPE,
        start_new_session=not interactive,
    )
    try:
        async with asyncio.timeout(None if interactive else _TIMEOUT_S):
            output, errors = await process.communicate()
    except TimeoutError as error:
        raise ConfigError(f"did not end within {_TIMEOUT_S:g} s") from error
    finally:
        await _end(process, group=not interactive)
    if process.returncode:
        text = (errors or b"").decode(errors="replace").strip()[-_MAX_OUTPUT:]
        raise ConfigError(f"failed with exit code {process.returncode}" + (f": {text}" if text else ""))
    return output


async def _end(process: asyncio.subprocess.Process, *, group: bool) -> None:
    """End a plugin that has not ended, and the programs of its group."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            if group:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
    # A program that has left the group may hold the pipes, and ``wait`` waits for their end.
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public closes them
    await process.wait()


def _credentials(output: bytes, api_version: str) -> ExecCredentials:
    try:
        answer = msgspec.json.decode(output, type=_ExecCredential)
    except msgspec.DecodeError as error:
        raise ConfigError(f"did not print an ExecCredential: {error}") from error
    if answer.api_version != api_version:
        raise ConfigError(f"returned apiVersion {answer.api_version}, configured is {api_version}")
    status = answer.status or _Status()
    cert, key = status.client_certificate_data or "", status.client_key_data or ""
    if bool(cert) != bool(key):
        raise ConfigError("returned only one of clientCertificateData and clientKeyData")
    if not (status.token or cert):
        raise ConfigError("returned neither a token nor a client certificate")
    bearer(status.token or "")
    expiry = status.expiration_timestamp
    return ExecCredentials(status.token or "", cert, key, expiry.timestamp() if expiry else math.inf)
