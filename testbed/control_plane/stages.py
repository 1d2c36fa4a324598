"""The stages of kwok, with annotations by which a test delays them.

What belongs here: the configuration of kwok. What does not: the stage files, which come with the source of
kwok (``testbed.programs.binaries``).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpushare.errors import ConfigError

SLOW_DELETE = "testbed.gpushare.io/slow-delete"
"""Pod annotation: "true" keeps a deleted pod terminating until the annotation is removed."""
SLOW_START = "testbed.gpushare.io/slow-start"
"""Pod annotation: "true" keeps a bound pod Pending until the annotation is removed."""

STAGE_FILES = (
    "node/fast/node-initialize.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
)
"""Files of the folder ``kustomize/stage`` of kwok."""
_DELAYS: Mapping[str, str] = {"pod-ready": SLOW_START, "pod-delete": SLOW_DELETE}
_PARALLEL = 16


def kwok_config(stage_texts: Sequence[str]) -> str:
    """Return the configuration of kwok: its settings and the given stages, which annotations delay."""
    settings = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "podPlayStageParallelism": _PARALLEL,
            "nodePlayStageParallelism": _PARALLEL,
            "nodeLeaseParallelism": _PARALLEL,
        },
    }
    stages = [delayed(yaml.safe_load(text)) for text in stage_texts]
    return yaml.safe_dump_all([settings, *stages], sort_keys=False)


def delayed(stage: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``stage``; it no longer applies to pods with the annotation that delays it."""
    annotation = _DELAYS.get(stage["metadata"]["name"])
    if annotation is None:
        return dict(stage)
    spec = stage["spec"]
    condition = {
        "key": f'.metadata.annotations["{annotation}"]',
        "operator": "NotIn",  # codespell:ignore
        "values": ["true"],
    }
    expressions = [*spec["selector"]["matchExpressions"], condition]
    return {**stage, "spec": {**spec, "selector": {**spec["selector"], "matchExpressions": expressions}}}


def read_stages(folder: Path) -> list[str]:
    """Return the texts of the stages in ``folder``; raise ConfigError if one is missing."""
    missing = [name for name in STAGE_FILES if not (folder / name).is_file()]
    if missing:
        raise ConfigError(
            f"stage files of kwok are missing in {folder}: {', '.join(missing)}; set TESTBED_KWOK_STAGES to "
            "the folder kustomize/stage of its source"
        )
    return [(folder / name).read_text(encoding="utf-8") for name in STAGE_FILES]
