"""The container runtime of the kubelet of a host, from its report. Pure.

What does not belong here: checks of that runtime.
"""

from typing import Final

from ansible_collections.gpushare.nodes.plugins.plugin_utils.checks import Document, version

UNMANAGED: Final = "unmanaged"
"""State of a driver, or of a runtime with its toolkit, that the roles do not change."""
HOW_TO: Final = "docs/how-to/gpu-operator.md"
ENGINES: Final = {"docker": "docker", "containerd": "containerd", "cri-o": "crio"}
"""Runtime to the value of container_runtime_engine, which is also the name of its service."""
_IN_ENDPOINT: Final = (("docker", "docker"), ("containerd", "containerd"), ("crio", "cri-o"))
"""cri-dockerd.sock and dockershim.sock belong to docker."""


def kubernetes_version(report: Document, configured: str = "") -> tuple[int, ...]:
    """Return the version of the kubelet, else the ``configured`` version, else ()."""
    return version(report["programs"]["kubelet"]) or version(configured)


def runtime_of(report: Document, configured: str) -> str | None:
    """Return docker, containerd, cri-o or None.

    The setting ``configured`` first (unless ``auto``), then the endpoint of the kubelet, then the installed
    runtimes. Docker includes containerd, so docker is preferred.
    """
    if configured != "auto":
        return configured
    installed = next((name for name in ("docker", "cri-o", "containerd") if report["programs"][name]), None)
    return of_kubelet(report) or installed


def of_kubelet(report: Document) -> str | None:
    """Return docker, containerd or cri-o by the endpoint of the kubelet, None if it is unknown."""
    endpoint = report["kubelet"]["runtime_endpoint"] or ""
    return next((name for part, name in _IN_ENDPOINT if part in endpoint), None)


def unit_state(report: Document, unit: str) -> str:
    """Return ``active``, ``inactive``, …; ``absent`` if the host has no such unit."""
    state: str = report["services"].get(unit, {}).get("state", "absent")
    return state
