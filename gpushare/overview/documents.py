"""The frame of every document for programs."""

from typing import Any, Final

API_VERSION: Final = "gpushare.io/v1"


def document(kind: str, **content: Any) -> dict[str, Any]:
    """A document of this kind, as an object of Kubernetes names its version."""
    return {"apiVersion": API_VERSION, "kind": kind, **content}
