"""kwok's stages for this testbed: kwok's own ones, with brakes that a test can pull.

What belongs here: the configuration that kwok reads. What does not: the stage files themselves,
which come with kwok's source (``testbed.programs.binaries``).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpushare.errors import ConfigError

SLOW_DELETE = "testbed.gpushare.io/slow-delete"
"""Pod annotation: "true" keeps a deleted pod terminating until the annotation goes."""
SLOW_START = "testbed.gpushare.io/slow-start"
"""Pod annotation: "true" keeps a bound pod Pending until the annotation goes."""

STAGE_FILES = (
    "node/fast/node-initialize.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
)
"""What the testbed uses of kwok's ``kustomize/stage`` folder."""
BRAKES: Mapping[str, str] = {"pod-ready": SLOW_START, "pod-delete": SLOW_DELETE}
_PARALLEL = 16


def kwok_config(stage_texts: Sequence[str]) -> str:
    """Return kwok's configuration: its settings and the given stages with their brakes."""
    settings = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "podPlayStageParallelism": _PARALLEL,
            "nodePlayStageParallelism": _PARALLEL,
            "nodeLeaseParallelism": _PARALLEL,
        },
    }
    stages = [braked(yaml.safe_load(text)) for text in stage_texts]
    return yaml.safe_dump_all([settings, *stages], sort_keys=False)


def braked(stage: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``stage``, not applied to pods that carry its brake's annotation."""
    brake = BRAKES.get(stage["metadata"]["name"])
    if brake is None:
        return dict(stage)
    spec = stage["spec"]
    condition = {
        "key": f'.metadata.annotations["{brake}"]',
        "operator": "NotIn",  # codespell:ignore
        "values": ["true"],
    }
    expressions = [*spec["selector"]["matchExpressions"], condition]
    return {**stage, "spec": {**spec, "selector": {**spec["selector"], "matchExpressions": expressions}}}


def read_stages(folder: Path) -> list[str]:
    """Return the texts of kwok's stages under ``folder``; raise ConfigError where one is missing."""
    missing = [name for name in STAGE_FILES if not (folder / name).is_file()]
    if missing:
        raise ConfigError(
            f"kwok's stage files {', '.join(missing)} are not in {folder}: set TESTBED_KWOK_STAGES to the "
            "folder kustomize/stage of kwok's source"
        )
    return [(folder / name).read_text(encoding="utf-8") for name in STAGE_FILES]
