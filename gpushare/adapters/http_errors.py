"""The reason of a failed HTTP request, in one line for people."""

import os

import aiohttp


def failure_text(error: BaseException) -> str:
    """What the error means; the text of aiohttp shows Python objects for a connection that failed."""
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        number = error.os_error.errno or 0
        cause = os.strerror(number) if number > 0 else error.os_error.strerror or str(error.os_error)
        return f"cannot connect to {error.host}:{error.port}: {cause}"
    if isinstance(error, aiohttp.InvalidURL):
        return "not a valid URL"
    return str(error) or type(error).__name__
