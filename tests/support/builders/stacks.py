"""Stacks that tests render and deploy, and a small one to modify."""

from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "tests" / "components"
STACKS = {
    "example": ROOT / "Pulumi.example.yaml",
    "node-port": FOLDER / "stacks" / "node-port.yaml",
    "sidecar": FOLDER / "stacks" / "sidecar.yaml",
    "managed": FOLDER / "stacks" / "managed.yaml",
    "installer": FOLDER / "stacks" / "installer.yaml",
    "everything": FOLDER / "stacks" / "everything.yaml",
}
_WITH_OWN_TESTS = {"autoscaling", "board-oauth2-proxy", "gitops", "recipes"}
EXAMPLES = sorted(file for file in (ROOT / "examples").rglob("*.yaml") if not _WITH_OWN_TESTS & {*file.parts})
"""The manifests of the ACK documentation."""
DIGEST = f"example.com/image@sha256:{'0' * 64}"


def raw_stack(
    *,
    extender: dict[str, Any] | None = None,
    pools: list[dict[str, Any]] | None = None,
    monitoring: dict[str, Any] | None = None,
    **top: Any,
) -> dict[str, Any]:
    """Plain values of a small valid stack, with changes to the extender, the pools, monitoring and the top.

    It has the layout of the ACK documentation, on nodes that limit nothing. Without a change, monitoring has
    no metrics API.
    """
    monitored = {} if monitoring is None else {"monitoring": {"metricsApi": {"enabled": False}, **monitoring}}
    return {
        "kubernetesVersion": "1.36",
        "extender": {**node_port(), "image": DIGEST, "certificatesImage": DIGEST, **(extender or {})},
        "devicePlugins": [
            {"image": DIGEST, "nodeSelector": {"gpushare": "true"}, **pool}
            for pool in ([{}] if pools is None else pools)
        ],
        **monitored,
        **top,
    }


def node_port(**changes: Any) -> dict[str, Any]:
    """An extender on the host network of the control plane, as in the ACK documentation."""
    return {"exposure": "node-port", **changes}


def sidecar(**changes: Any) -> dict[str, Any]:
    """An extender with a separate kube-scheduler."""
    return {"exposure": "sidecar", "scheduler": {"image": DIGEST}, **changes}
