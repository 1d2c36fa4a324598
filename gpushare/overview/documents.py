"""The frame of every document for programs."""

from typing import Any


def document(kind: str, **content: Any) -> dict[str, Any]:
    """A document of this kind, as an object of Kubernetes names its version."""
    return {"apiVersion": "gpushare.io/v1", "kind": kind, **content}
