"""ACK's components of GPU sharing: the chart ack-cgpu, and its successor ack-ai-installer. Pure.

Names of ack-cgpu: the documents of ACK on cGPU (``helm get manifest cgpu``). Those of ack-ai-installer: lists
of its DaemonSets that users have published (2024). Its scheduler writes the annotation of the allocation
alone: koordinator, pkg/scheduler/plugins/ack.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from gpushare.adapters.kube.wire import WirePod, pod_of
from gpushare.cli.migrate.manifest import Json, containers, items, mapping, resources, template
from gpushare.contract import (
    ANN_ALLOCATION,
    ANN_IDX,
    LABEL_CARDS_PER_POD,
    LABEL_MODE,
    LABEL_PLACEMENT,
    RESOURCE_MEM,
)
from gpushare.model.modes import SHARING
from gpushare.scheduling.placement import POLICIES

_REGISTRY: Final = "aliyuncs.com/acs/"
"""Where the images of ACK's own components are."""
_CGPU: Final = {
    "cgpu-installer": "installs the kernel module cGPU, which would limit containers a second time",
    "device-plugin-evict-ds": "moves NVIDIA's device plugin away, as gpushare does itself",
    "device-plugin-recover-ds": "moves NVIDIA's device plugin back, as gpushare does itself",
    "gpushare-device-plugin-ds": "would offer the same resource from a second device plugin",
    "gpushare-schd-extender": "would place the same pods from a second ledger",
    "gpushare-installer": "edits kube-scheduler, as gpushare does itself",
}
"""Objects of ack-cgpu. gpushare has the same names, so the image decides."""
_AI_INSTALLER: Final = (
    "cgpu-core-installer",
    "gpushare-core-device-plugin-ds",
    "gpushare-mps-device-plugin-ds",
    "gputopo-device-plugin-ds",
    "nvidia-device-plugin-recover",
)
"""DaemonSets of ack-ai-installer that ack-cgpu does not have."""

_ONE_GPU: Final = (
    f"here the containers of a pod share one GPU, or equal parts of several (label {LABEL_CARDS_PER_POD}): "
    "their sum must fit, else split the pod"
)


def installation(manifest: Json) -> str:
    """What to do with an object of ACK's components; empty for another object."""
    name = str(mapping(manifest.get("metadata")).get("name"))
    if name in _AI_INSTALLER:
        return "delete ack-ai-installer first (console of ACK): its device plugins offer the same GPUs"
    images = (str(each.get("image", "")) for _, each in containers(template(manifest) or {}))
    if name in _CGPU and any(_REGISTRY in image for image in images):
        return f"delete it first (helm uninstall cgpu -n kube-system): it {_CGPU[name]}"
    return ""


def node(manifest: Json) -> Iterator[str]:
    """What stays of the labels of a node."""
    labels = mapping(mapping(manifest.get("metadata")).get("labels"))
    mode, placement = labels.get(LABEL_MODE), labels.get(LABEL_PLACEMENT)
    if mode in set(SHARING):
        yield f"label {LABEL_MODE}={mode}"
    if placement in POLICIES:
        yield f"label {LABEL_PLACEMENT}={placement}"


def placed(manifest: Json) -> str:
    """The GPUs of a pod that ACK's scheduler has placed on several; empty for another pod."""
    annotations = mapping(mapping(manifest.get("metadata")).get("annotations"))
    if manifest.get("kind") != "Pod" or ANN_IDX in annotations or ANN_ALLOCATION not in annotations:
        return ""
    try:
        pod = pod_of(msgspec.convert(manifest, WirePod))
    except msgspec.ValidationError:
        return ""
    if pod is None or pod.claim is None:
        return ""
    gpus = ", ".join(f"{share.mem} units of GPU {index}" for index, share in pod.claim)
    if len(pod.claim) == 1:
        return ""
    return f"it keeps {gpus} until it is replaced; {_ONE_GPU}"


def several_containers(pod: Json) -> str:
    """What differs for a pod template whose containers had GPUs of their own; empty for another one."""
    spec = mapping(pod.get("spec"))
    using = [
        str(each.get("name", "")) for each in items(spec.get("containers")) if RESOURCE_MEM in resources(each)
    ]
    labels = mapping(mapping(pod.get("metadata")).get("labels"))
    if len(using) < 2 or LABEL_CARDS_PER_POD in labels:  # noqa: PLR2004 - several
        return ""
    return f"containers {', '.join(using)} could have a GPU each; {_ONE_GPU}"
