"""Labels and taints of existing nodes: partial Node objects for server-side apply.

The nodes are listed by name, not by a selector: the output must not depend on the time of rendering, and the
nodes do not have the label yet.
"""

from collections.abc import Iterable

from components.config import NodePool
from components.formats import taint_from
from components.manifests.parts import Object
from gpushare.contract import LABEL_PLACEMENT


def objects(pools: Iterable[NodePool]) -> list[Object]:
    """One partial Node per name, to apply onto the existing Node."""
    return [_node(name, pool) for pool in pools for name in pool.nodes]


def _node(name: str, pool: NodePool) -> Object:
    placement = {LABEL_PLACEMENT: str(pool.placement)} if pool.placement else {}
    taints = [taint_from(each) for each in pool.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**pool.labels, **placement}},
        **({"spec": {"taints": taints}} if taints else {}),
    }
