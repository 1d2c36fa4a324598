"""The error classes of gpushare. Expected rejections ("no GPU has 4 units free") are values, not errors.

Adapters translate the exceptions of their libraries into these and chain the cause; entry points map them to
HTTP responses, gRPC codes and exit codes.
"""

from http import HTTPStatus
from typing import Final

_OF_OPENSSL: Final = {
    "PEM lib": "not a certificate and its key in PEM",
    "KEY_VALUES_MISMATCH": "the key is not that of the certificate",
    "NO_CERTIFICATE_OR_CRL_FOUND": "the CA is not a certificate in PEM",
}
"""Its own texts name neither the cause nor a remedy."""

FENCED: Final = "Fenced"
"""The ``reason`` of an ApiError whose request was not sent because its fence refused."""

_CLIENT_ERROR = 4


class GpuShareError(Exception):
    """Base class of all errors that gpushare raises intentionally."""


class InvalidRequest(GpuShareError):
    """Input that cannot be parsed; the text names the field and the value."""


class ConfigError(GpuShareError):
    """An invalid or missing setting, kubeconfig, credential or permission."""


class GpuError(GpuShareError):
    """NVML is missing, returns an error or does not answer."""


class DriverAbsentError(GpuError):
    """The kernel driver is not loaded, or of another version than the NVML library. It may come back."""


class DriverReplacedError(GpuError):
    """The kernel driver does not match the NVML library of this process: only a new process can use it."""


class KernelError(GpuShareError):
    """The native kernel of a placement policy is missing or cannot be loaded."""


class KubeletError(GpuShareError):
    """The kubelet, or one of its sockets and files, cannot be used."""


class SourceError(GpuShareError):
    """An exporter or Prometheus does not answer, or not in its format."""


class ApiError(GpuShareError):
    """The Kubernetes API refused the request, failed or did not answer.

    ``status`` is the HTTP status, or 0 without an answer. ``reason`` is the API's reason in one word, that of
    the cause if there is one. ``clear`` is False if the outcome of the request is unknown (timeout, lost
    connection, 5xx). ``unsent`` is True if no byte of it was sent.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        retry_after_s: float = 0,
        unsent: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.unsent = unsent

    @property
    def clear(self) -> bool:
        """Whether the request certainly had no effect."""
        refused = self.status // 100 == _CLIENT_ERROR and self.status != HTTPStatus.REQUEST_TIMEOUT
        return refused or self.unsent


class ApiRestored(GpuShareError):
    """The Kubernetes API returned an earlier state than before: etcd was restored from a backup.

    What was derived from the state between may be wrong, and no watch corrects it. The process ends, and
    derives everything again when it starts.
    """

    def __init__(self, what: str, *, before: str, now: str) -> None:
        super().__init__(
            f"{what}: the API server returned version {now} after {before}, so it was restored from a "
            "backup; this process ends and has to be started again, to read the restored state"
        )


def first_of(group: BaseExceptionGroup[GpuShareError]) -> BaseException:
    """The first error of a group that is not itself a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def cause_of(error: Exception) -> str:
    """What an exception of Python, OpenSSL or the YAML parser says to users."""
    text = str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    if mark := getattr(error, "problem_mark", None):
        return f"line {mark.line + 1}, column {mark.column + 1}: {getattr(error, 'problem', text)}"
    of_openssl = (meaning for cause, meaning in _OF_OPENSSL.items() if cause in text)
    system = error.strerror if isinstance(error, OSError) else None
    return next(of_openssl, None) or system or " ".join(text.split()) or type(error).__name__
