# Copied from gpushare/model/modes.py by `make generate`; change it there.
"""Sharing modes of nodes, and the labels that select one.

What does not belong here: nodes and their GPUs (``objects``).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.contract import LABEL_CGPU, LABEL_GPUSHARE, LABEL_MODE


class Mode(StrEnum):
    """Sharing mode of a node (label ``ack.node.gpu.schedule``)."""

    WHOLE = "default"
    TOPOLOGY = "topology"
    SHARE = "share"
    CGPU = "cgpu"
    CORE_MEM = "core_mem"
    MPS = "mps"


SHARING = frozenset({Mode.SHARE, Mode.CGPU, Mode.CORE_MEM, Mode.MPS})
WITH_CORE = frozenset({Mode.CORE_MEM, Mode.MPS})
LIMITING = frozenset({Mode.CGPU, Mode.CORE_MEM, Mode.MPS})
"""Modes that enforce the limits of containers."""
CGPU_PODS: Final = 0
"""The default maximum of pods on a GPU of mode ``cgpu``: none. 20 is that of cGPU, a kernel module of ACK."""


def mode_of(labels: Mapping[str, str]) -> tuple[Mode, str | None]:
    """The mode, and why the node does not share; None if it shares.

    An empty value is no mode of ACK, where a node without one has whole GPUs: it does not share either.
    """
    text = labels.get(LABEL_MODE)
    if text is not None and text not in set(Mode):
        return Mode.SHARE, f"label {LABEL_MODE}={text!r} is not one of {', '.join(Mode)}"
    mode = _mode_by_cgpu(labels) if text is None else Mode(text)
    if mode not in SHARING:
        return mode, f"label {LABEL_MODE}={mode} means whole GPUs"
    for key in (LABEL_GPUSHARE, LABEL_CGPU):
        if text is None and labels.get(key) == "false":
            return mode, f"label {key}=false"
    return mode, None


def _mode_by_cgpu(labels: Mapping[str, str]) -> Mode:
    """The older label of ACK means sharing with isolation."""
    return Mode.CGPU if labels.get(LABEL_CGPU) == "true" else Mode.SHARE
