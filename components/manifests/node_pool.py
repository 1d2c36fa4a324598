"""Labels and taints of nodes that exist: our part of each Node, for server-side apply.

The names of the nodes are said, not found by a selector: what is rendered must not depend on when it is
rendered, and a label that nothing else sets is no way to find the nodes that shall get it.
"""

from collections.abc import Iterable

from components.config import NodePool
from components.manifests.parts import Object
from gpushare.contract import LABEL_PLACEMENT


def objects(pools: Iterable[NodePool]) -> list[Object]:
    """One partial Node for each name: to be applied by the server, onto the node that is there."""
    return [_node(name, pool) for pool in pools for name in pool.nodes]


def _node(name: str, pool: NodePool) -> Object:
    placement = {LABEL_PLACEMENT: str(pool.placement)} if pool.placement else {}
    taints = [_taint(each) for each in pool.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**pool.labels, **placement}},
        **({"spec": {"taints": taints}} if taints else {}),
    }


def _taint(text: str) -> Object:
    """Of ``key=value:Effect``."""
    word, _, effect = text.rpartition(":")
    key, _, value = word.partition("=")
    return {"key": key, **({"value": value} if value else {}), "effect": effect}
