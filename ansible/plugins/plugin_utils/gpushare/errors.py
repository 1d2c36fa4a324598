# Copied from gpushare/errors.py by `make collection-modules`; change it there.
"""The error tree of gpushare. Expected refusals ("no card has 4 units free") are values, not errors.

    GpuShareError
    ├── InvalidRequest    input that cannot be understood; the text names the field and the value
    ├── ApiError          the Kubernetes API answered with an error, or not at all
    ├── GpuError          the driver is missing, refuses or stays silent
    ├── KubeletError      the kubelet, or a file of its, cannot be used
    ├── SourceError       an exporter or Prometheus does not answer, or not as it should
    └── ConfigError       settings or credentials that cannot work

Adapters translate what their libraries raise into these and chain the cause; entry points map them
to HTTP answers, gRPC codes and exit codes.
"""

from http import HTTPStatus

_CLIENT_ERROR = 4


class GpuShareError(Exception):
    """Base of all errors that gpushare raises on purpose."""


class InvalidRequest(GpuShareError):
    """Input that cannot be understood."""


class ConfigError(GpuShareError):
    """A setting, kubeconfig or right that keeps a program from working."""


class GpuError(GpuShareError):
    """NVML is missing, refuses or does not answer."""


class KubeletError(GpuShareError):
    """The kubelet, or one of its sockets and files, cannot be used."""


class SourceError(GpuShareError):
    """An exporter or Prometheus does not answer, or not as it should."""


class ApiError(GpuShareError):
    """The Kubernetes API refused, failed or stayed silent.

    ``status`` is the HTTP status, or 0 where no answer came. ``clear`` is False where the
    request may or may not have taken effect (timeout, lost connection, 5xx). ``unsent`` is True where no
    byte of it has left.
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
        """Whether the API server certainly did not carry out the request."""
        refused = self.status // 100 == _CLIENT_ERROR and self.status != HTTPStatus.REQUEST_TIMEOUT
        return refused or self.unsent


def first_of(group: BaseExceptionGroup[GpuShareError]) -> BaseException:
    """The first plain error of a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
