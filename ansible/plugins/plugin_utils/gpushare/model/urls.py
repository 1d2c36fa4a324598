# Copied from gpushare/model/urls.py by `make generate`; change it there.
"""URLs in flags and settings. Imports nothing slow: ``--help`` loads it."""

from urllib.parse import urlsplit


def is_http_url(text: str) -> bool:
    """Whether the text is the address of an HTTP service, such as ``http://host:9090/path``."""
    try:
        parts = urlsplit(text)
        has_host = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of the host or the port
        return False
    return has_host and text.isprintable() and " " not in text
