"""Errors of programs that work on a checkout.

Wrong settings of the user (a path that does not exist, an unknown version) raise
``gpushare.errors.ConfigError``; error responses of the API server raise ``gpushare.errors.ApiError``.
"""

from gpushare.errors import GpuShareError


class DevkitError(GpuShareError):
    """A build, a process or a wait failed; the text names it and the remedy."""

    __test__ = False


class PortTaken(DevkitError):
    """Another process took a port between its choice and its use; retry with other ports."""
