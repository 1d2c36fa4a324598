"""The rights of users for ``kubectl inspect gpushare`` and the commands of ``kubectl gpushare`` that read.

Only ``doctor`` and ``migrate`` need more, and ``explain`` for unhealthy GPUs; an administrator runs them.
"""

from collections.abc import Sequence
from typing import Final

from components.manifests.parts import Object, metadata, role, rule

_NAME: Final = "gpushare-viewer"
_RBAC: Final = "rbac.authorization.k8s.io"


def objects(groups: Sequence[str]) -> list[Object]:
    """Roles and their bindings to groups of users; none without groups."""
    if not groups:
        return []
    reads = [rule("", ["nodes"], ["get", "list", "watch"]), rule("", ["pods"], ["list", "watch"])]
    return [
        {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": _NAME}, "rules": reads},
        _binding("ClusterRole", {"name": _NAME}, groups),
        # The exporters, through the API server. A right to a proxy cannot be limited to ports.
        role(_NAME, [rule("", ["pods/proxy"], ["get"])]),
        _binding("Role", metadata(_NAME), groups),
    ]


def _binding(kind: str, meta: Object, groups: Sequence[str]) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": meta,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": _NAME},
        "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": each} for each in groups],
    }
