"""Service accounts and RBAC rules of the daemons, exactly as ``components.manifests`` deploys them.

What belongs here: selecting these objects from the rendered manifests. What does not: the rules.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from components.config_extender import Exposure, Extender
from components.config_monitoring import Board, Exporter, MetricsApi
from components.manifests import board, device_plugin, exporter, extender, metrics_api
from components.manifests.parts import Object
from components.render import as_yaml
from gpushare.contract import METRICS_TLS_SECRET
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.model.options import MakeRoom

_KINDS: Final = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_VERSION: Final = KubernetesVersion(1, 36)


def of_agent() -> str:
    """Return the account, roles and bindings of the node agent as YAML, with all optional rights."""
    return _yaml(device_plugin.shared(_VERSION, query_kubelet=True, startup_taint=True))


def of_exporter() -> str:
    """Return the account, role and binding of the exporter as YAML."""
    return _yaml(exporter.objects(Exporter()))


def of_extender(*, any_lease: bool = False, evicts: bool = False) -> str:
    """Return the account, roles and bindings of the extender as YAML, with the right to its Lease.

    With ``any_lease`` to every Lease in its namespace, for several elections in one cluster; with ``evicts``
    as of an extender that makes room.
    """
    settings = Extender(exposure=Exposure.NODE_PORT)
    if evicts:
        settings = replace(settings, make_room=MakeRoom.EVICT)
    objects = extender.objects(settings, _VERSION)
    if any_lease:
        for rule in (rule for each in objects for rule in each.get("rules", ())):
            if rule["resources"] == ["leases"]:
                rule.pop("resourceNames", None)
    return _yaml(objects)


def of_metrics_api() -> str:
    """Return the account, role and bindings of the metrics API as YAML, without those of its certificates."""
    return _yaml(metrics_api.objects(MetricsApi(tls_secret=METRICS_TLS_SECRET), _VERSION))


def of_board() -> str:
    """Return the account, roles and bindings of the board in a cluster as YAML."""
    return _yaml(board.objects(Board(tls_secret=""), _VERSION))


def _yaml(objects: Iterable[Object]) -> str:
    return as_yaml([each for each in objects if each["kind"] in _KINDS])
