"""The errors of the testbed.

Wrong settings of the user (a path that does not exist, an unknown version) raise
``gpushare.errors.ConfigError``; error responses of the API server raise ``gpushare.errors.ApiError``.
"""

from gpushare.errors import GpuShareError


class TestbedError(GpuShareError):
    """A build, a process or a wait of the testbed failed; the text names it and the remedy."""

    __test__ = False


class PortTaken(TestbedError):
    """Another process took a port between its choice and its use; retry with other ports."""
