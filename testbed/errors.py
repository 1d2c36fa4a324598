"""The one error that the testbed raises when it cannot do what was asked.

What belongs here: the error type. Wrong settings of the user (a path that does not exist, an
unknown version) are ``gpushare.errors.ConfigError``; answers of the API server are
``gpushare.errors.ApiError``.
"""

from gpushare.errors import GpuShareError


class TestbedError(GpuShareError):
    """A build, a process or a wait of the testbed failed; the text names it and a way out."""

    __test__ = False


class PortTaken(TestbedError):
    """Another process took a port between its choice and its use; other ports will do."""
