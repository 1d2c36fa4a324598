"""In-cluster access with the pod's service account and its rotated token.

See https://kubernetes.io/docs/tasks/run-application/access-api-from-pod.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import structlog

from gpushare.adapters.kube.access import ApiAccess, bearer_of, text_of
from gpushare.errors import ConfigError

log = structlog.get_logger()

HOST_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
"""The kubelet sets it in every container."""
_PORT: Final = "KUBERNETES_SERVICE_PORT"
_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_REREAD_S: Final = 60.0
"""The kubelet rotates a token when a fifth of its lifetime is left: two minutes for the shortest."""


def from_service_account(
    environ: Mapping[str, str], folder: Path = _FOLDER, clock: Callable[[], float] = time.monotonic
) -> ApiAccess:
    """Return access as the pod's service account; ``clock`` is in seconds. Raises ConfigError."""
    ca_file = folder / "ca.crt"
    try:
        host = _url(environ)
        token = TokenFile(folder / "token", clock)
        text_of(ca_file)
    except ConfigError as error:
        if HOST_VARIABLE in environ:
            raise ConfigError(f"service account of this pod: {error}") from error
        raise ConfigError(
            f"no kubeconfig given and not in a cluster ({error}); set KUBECONFIG or --kubeconfig"
        ) from error
    return ApiAccess(host=host, authorization=token.header, ca=ca_file)


def namespace_of_service_account(folder: Path = _FOLDER) -> str | None:
    """Return the pod's namespace; None outside pods."""
    try:
        return text_of(folder / "namespace").strip()
    except ConfigError:
        return None


def _url(environ: Mapping[str, str]) -> str:
    for name in (HOST_VARIABLE, _PORT):
        if not environ.get(name):
            raise ConfigError(f"{name} is not set")
    host, port = environ[HOST_VARIABLE], environ[_PORT]
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


class TokenFile:
    """A token that is reread regularly; if that fails, the last token stays in use. Raises ConfigError."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._last_error = ""
        self._read()

    async def header(self) -> str:
        """Return the Authorization header."""
        if self._clock() - self._read_at >= _REREAD_S:
            self._renew()
        return self._header

    def _read(self) -> None:
        self._read_at = self._clock()
        self._header = bearer_of(self._path)

    def _renew(self) -> None:
        try:
            self._read()
            self._last_error = ""
        except ConfigError as error:
            if self._last_error != str(error):
                log.warning("token_not_renewed", reason=str(error))
            self._last_error = str(error)
