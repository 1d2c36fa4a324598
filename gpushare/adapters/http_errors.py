"""The reason of a failed HTTP request, in one line for people."""

import os
import ssl

import aiohttp


def failure_text(error: BaseException) -> str:
    """What the error means; the text of aiohttp shows Python objects for a connection that failed."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = _refusal(error.certificate_error)
        return f"the certificate of {error.host}:{error.port} is not trusted: {cause}"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return f"cannot connect to {error.host}:{error.port} with TLS: {_refusal(error.os_error)}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0
        cause = os.strerror(number) if number > 0 else error.os_error.strerror or str(error.os_error)
        return f"cannot connect to {error.host}:{error.port}: {cause}"
    if isinstance(error, aiohttp.InvalidURL):
        return "not a valid URL"
    return str(error) or type(error).__name__


def _refusal(error: Exception) -> str:
    """OpenSSL's reason in words: its texts have names of files and lines."""
    if isinstance(error, ssl.SSLCertVerificationError) and error.verify_message:
        return error.verify_message
    reason = error.reason if isinstance(error, ssl.SSLError) else ""
    return reason.replace("_", " ").lower() if reason else str(error) or type(error).__name__
