"""The frame of every document for programs."""

from datetime import UTC, datetime
from typing import Any


def document(kind: str, **content: Any) -> dict[str, Any]:
    """A document of this kind, as an object of Kubernetes names its version."""
    return {"apiVersion": "gpushare.io/v1", "kind": kind, **content}


def time_text(seconds: float) -> str:
    """A time in seconds since 1970, as documents write it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
