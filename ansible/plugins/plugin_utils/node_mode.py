"""Merge patches of a Node object for a mode. Pure.

What belongs here: labels, taints, and whether the node changes between sharing and whole GPUs. What does not:
pods (the action evict_pods) and files of the host (the tasks of the role).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.contract import (
    ANN_CARDS,
    ANN_OPERATOR_PLUGIN,
    LABEL_CARD_COUNT,
    LABEL_CARD_MIB,
    LABEL_CARD_MODEL,
    LABEL_CGPU,
    LABEL_GPUSHARE,
    LABEL_MODE,
    LABEL_OPERATOR_PLUGIN,
    LABEL_PLACEMENT,
    RESOURCE_CORE,
    RESOURCE_MEM,
    RESOURCE_WHOLE_GPU,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.model.card_models import label_value
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.model.modes import Mode, mode_of
from ansible_collections.gpushare.nodes.plugins.plugin_utils.node_object import cordon, uncordon

Object = dict[str, Any]

SWITCHING = "gpushare.io/switching"
"""Annotation of a node that the role has cordoned for the change, and uncordons when it is done."""
MODE_LABELS = (LABEL_GPUSHARE, LABEL_CGPU, LABEL_MODE)
GPU_RESOURCES = (RESOURCE_MEM, RESOURCE_CORE, RESOURCE_WHOLE_GPU)
_REOPEN: Object = {"metadata": {"annotations": {SWITCHING: None}}, "spec": {"unschedulable": None}}
_PAUSED = "paused-for-driver-upgrade"
"""Part of the label while the driver manager of the GPU Operator reloads the driver. Afterwards it restores
the former value, so that a change in between would be lost."""
_OPERATOR_LABELS = "nvidia.com/gpu.deploy."
_SMI_LINE = re.compile(r"(?P<model>.+), (?P<mib>\d+)")


def plan(node: Object, wanted: Object, cards: list[Object]) -> Object:
    """Plan the changes of a node for ``wanted``, the variables of the role without their prefix.

    Returns ``switches``, whether GPU pods must be evicted first, the patches ``close``, ``reopen`` (if the
    eviction fails) and ``finish``, each empty if there is nothing to do, the ``resources`` of GPU pods, and
    ``refusal``, why the node must not be changed now, "" if it may.
    """
    interrupted = SWITCHING in _metadata(node, "annotations")
    switches = interrupted or shares(_metadata(node, "labels")) != (wanted["mode"] == "share")
    close = cordon(node, SWITCHING, wanted["mode"]) if switches else {}
    reopen = _REOPEN if close else uncordon(node, SWITCHING)
    return {
        "switches": switches,
        "close": close,
        "reopen": reopen,
        "finish": _finish(node, wanted, cards, reopen),
        "resources": list(GPU_RESOURCES),
        "refusal": _refusal(_metadata(node, "labels")) if wanted["mode"] == "share" else "",
    }


def shares(labels: Mapping[str, str]) -> bool:
    """Return whether a node with these labels shares its GPUs; without mode labels it has whole GPUs."""
    return any(key in labels for key in MODE_LABELS) and mode_of(labels)[1] is None


def cards_of(smi: str) -> list[Object]:
    """Return ``model`` and ``mib`` of the GPUs in the CSV output of nvidia-smi; other lines are ignored."""
    found = (_SMI_LINE.fullmatch(line.strip()) for line in smi.splitlines())
    return [{"model": each["model"], "mib": int(each["mib"])} for each in found if each]


def _refusal(labels: Mapping[str, str]) -> str:
    value = labels.get(LABEL_OPERATOR_PLUGIN, "")
    if _PAUSED not in value:
        return ""
    return (
        f"the GPU Operator changes the driver of the node (label {LABEL_OPERATOR_PLUGIN}={value}): wait "
        "until the label has its former value, and run again"
    )


def _operator(node: Object, mode: str) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """Return the label that stops NVIDIA's plugin of the GPU Operator, and the annotation that remembers it.

    A node that shares its GPUs needs the plugin off. A node that no longer does gets back exactly what it
    had; a label that this role did not change stays.
    """
    labels, annotations = _metadata(node, "labels"), _metadata(node, "annotations")
    if mode == "share":
        managed = any(key.startswith(_OPERATOR_LABELS) for key in labels)
        if not managed or labels.get(LABEL_OPERATOR_PLUGIN) == "false":
            return {}, {}
        return {LABEL_OPERATOR_PLUGIN: "false"}, {ANN_OPERATOR_PLUGIN: labels.get(LABEL_OPERATOR_PLUGIN, "")}
    if ANN_OPERATOR_PLUGIN not in annotations:
        return {}, {}
    return {LABEL_OPERATOR_PLUGIN: annotations[ANN_OPERATOR_PLUGIN] or None}, {ANN_OPERATOR_PLUGIN: None}


def _finish(node: Object, wanted: Object, cards: list[Object], reopen: Object) -> Object:
    shown = _metadata(node, "labels")
    operator, before = _operator(node, wanted["mode"])
    labels = {**_mode_labels(wanted), **_card_labels(node, cards), **operator, **wanted["labels"]}
    differing = {key: value for key, value in labels.items() if shown.get(key) != value}
    taints = _taints((node.get("spec") or {}).get("taints") or [], wanted)
    spec = {
        **({"taints": taints} if taints is not None else {}),
        **reopen.get("spec", {}),
    }
    annotations = {**before, **reopen.get("metadata", {}).get("annotations", {})}
    metadata = _without_empty(labels=differing, annotations=annotations)
    return _without_empty(metadata=metadata, spec=spec)


def _without_empty(**parts: Object) -> Object:
    return {key: part for key, part in parts.items() if part}


def _mode_labels(wanted: Object) -> dict[str, str | None]:
    """Return the three mode labels; unused ones are removed, so that no label contradicts another."""
    share = wanted["mode"] == "share"
    values = {
        LABEL_GPUSHARE: str(share).lower(),
        LABEL_CGPU: str(share).lower(),
        LABEL_MODE: wanted["schedule"] if share else str(Mode.WHOLE),
    }
    placement = {LABEL_PLACEMENT: wanted["placement"]} if wanted["placement"] else {}
    return {**{key: values[key] if key in wanted["keys"] else None for key in values}, **placement}


def _card_labels(node: Object, cards: list[Object]) -> dict[str, str | None]:
    """Return the labels of ACK, from the first GPU; empty if the node agent publishes the GPUs."""
    if not cards or ANN_CARDS in _metadata(node, "annotations"):
        return {}
    first = cards[0]
    mib = {LABEL_CARD_MIB: f"{first['mib']}MiB"} if first.get("mib") else {}
    return {LABEL_CARD_MODEL: label_value(first["model"]), **mib, LABEL_CARD_COUNT: str(len(cards))}


def _taints(shown: list[Object], wanted: Object) -> list[Object] | None:
    """Return the complete list of taints of the node, None if it does not change."""
    keys = {(each["key"], each["effect"]) for each in wanted["taints"]}
    kept = [
        each
        for each in shown
        if (each["key"], each["effect"]) not in keys and each["key"] not in wanted["removed_taints"]
    ]
    ours = [{key: value for key, value in each.items() if value} for each in wanted["taints"]]
    same = [each for each in ours if each in shown]
    return None if len(same) == len(ours) and len(kept) + len(ours) == len(shown) else [*kept, *ours]


def _metadata(node: Object, part: str) -> dict[str, str]:
    found: dict[str, str] = (node.get("metadata") or {}).get(part) or {}
    return found
