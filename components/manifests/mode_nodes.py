"""Which nodes of a pool share their GPUs, by their mode labels, as node selector and node affinity of pods.

The rules are those of ``gpushare.model.modes.mode_of``: ACK's label decides if a node has it, and the value
``false`` of an older one otherwise.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from components.formats import modes_in
from components.manifests.parts import Object
from gpushare.contract import LABEL_CARD_COUNT, LABEL_CGPU, LABEL_GPUSHARE, LABEL_MODE
from gpushare.model.modes import SHARING, Mode

_OLDER: Final = (LABEL_GPUSHARE, LABEL_CGPU)
_SHARING: Final = sorted(map(str, SHARING))
_WHOLE: Final = sorted(str(mode) for mode in Mode if mode not in SHARING)


def nodes_that_share(selector: Mapping[str, str]) -> Object:
    """Select the nodes of the pool that share, and those with an unknown mode, which the agent reports."""
    older = [_not_in(label, ["false"]) for label in _OLDER]
    terms = [[_in(LABEL_MODE, _SHARING)], [_not_in(LABEL_MODE, [*_SHARING, *_WHOLE]), *older]]
    return {"nodeSelector": dict(selector), **_affinity(terms)}


def nodes_that_share_no_longer(selector: Mapping[str, str]) -> Object:
    """Select the nodes of the pool whose labels say that they do not share, or have no mode label any more.

    A node without a mode label has GPUs if an agent, or ACK, has counted them. One that shares in another
    pool is left out.
    """
    modes = modes_in(selector)
    rest = {label: value for label, value in selector.items() if label not in modes}
    off = chain.from_iterable(_off(label, selector[label]) for label in modes)
    removed = [
        *(_not_in(label, ["true"]) for label in _OLDER),
        _not_in(LABEL_MODE, _SHARING),
        {"key": LABEL_CARD_COUNT, "operator": "Exists"},
    ]
    return {**({"nodeSelector": rest} if rest else {}), **_affinity([*off, removed])}


def _off(label: str, value: str) -> list[list[Object]]:
    """The terms of nodes that the label, or another one beside it, keeps from sharing."""
    if label == LABEL_MODE:
        return [[_in(LABEL_MODE, _WHOLE)]]
    mine = _in(label, [value, "false"])
    return [
        [mine, _in(LABEL_MODE, _WHOLE)],
        *([mine, _in(older, ["false"]), _not_in(LABEL_MODE, _SHARING)] for older in _OLDER),
    ]


def _affinity(terms: Iterable[list[Object]]) -> Object:
    """A node is selected if all expressions of one term hold."""
    listed = [{"matchExpressions": each} for each in terms]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}
    return {"affinity": {"nodeAffinity": required}}


def _in(label: str, values: list[str]) -> Object:
    return {"key": label, "operator": "In", "values": values}


def _not_in(label: str, values: list[str]) -> Object:
    """Holds for nodes without the label too."""
    return {"key": label, "operator": "NotIn", "values": values}
