"""The rights of users for ``kubectl inspect gpushare`` and the commands of ``kubectl gpushare`` that read.

Only ``doctor`` and ``migrate`` need more, and ``explain`` for unhealthy GPUs; an administrator runs them.
"""

from collections.abc import Sequence
from typing import Final

from components.manifests.parts import RBAC, Object, binding, cluster_role, metadata, role, rule
from gpushare.contract import EXTENDER_NAME

_NAME: Final = "gpushare-viewer"


def objects(groups: Sequence[str]) -> list[Object]:
    """Roles and their bindings to groups of users; none without groups."""
    if not groups:
        return []
    reads = [rule("", ["nodes"], ["get", "list", "watch"]), rule("", ["pods"], ["list", "watch"])]
    subjects = [{"apiGroup": RBAC, "kind": "Group", "name": each} for each in groups]
    return [
        cluster_role(_NAME, reads),
        binding("ClusterRole", {"name": _NAME}, _NAME, subjects),
        # The exporters, through the API server. A right to a proxy cannot be limited to ports.
        role(
            _NAME,
            [
                rule("", ["pods/proxy"], ["get"]),
                # Whether an extender leads.
                rule("coordination.k8s.io", ["leases"], ["get"], names=[EXTENDER_NAME]),
            ],
        ),
        binding("Role", metadata(_NAME), _NAME, subjects),
    ]
