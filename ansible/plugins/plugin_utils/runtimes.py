"""Which container runtime a host's kubelet uses, read off its report.

What does not belong here: whether that runtime is good. Pure.
"""

from typing import Final

from ansible_collections.gpushare.nodes.plugins.plugin_utils.checks import Document, version

UNITS: Final = {"docker": "docker", "containerd": "containerd", "cri-o": "crio"}
_IN_ENDPOINT: Final = (("docker", "docker"), ("containerd", "containerd"), ("crio", "cri-o"))
"""cri-dockerd.sock and dockershim.sock are docker's."""


def kubernetes_version(report: Document, said: str = "") -> tuple[int, ...]:
    """Return the version of the host's kubelet, else what a person ``said``, else ()."""
    return version(report["programs"]["kubelet"]) or version(said)


def runtime_of(report: Document, said: str) -> str | None:
    """Return docker, containerd, cri-o or None.

    What a person ``said`` counts (unless ``auto``), then the endpoint that the kubelet has, then what
    is installed. Docker brings containerd along, so containerd beside it says nothing.
    """
    if said != "auto":
        return said
    endpoint = report["kubelet"]["runtime_endpoint"] or ""
    configured = next((name for part, name in _IN_ENDPOINT if part in endpoint), None)
    installed = next((name for name in ("docker", "cri-o", "containerd") if report["programs"][name]), None)
    return configured or installed


def unit_state(report: Document, unit: str) -> str:
    """Return ``active``, ``inactive``, …; ``absent`` where the host has no such unit."""
    state: str = report["services"].get(unit, {}).get("state", "absent")
    return state
