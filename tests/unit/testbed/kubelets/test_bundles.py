"""Which of a node's bundles belongs to a container."""

import json
import os
from pathlib import Path

from testbed.kubelets.bundles import spec_of


def bundle(folder: Path, name: str, *, pod: str = "p", container: str = "main", at: int = 0) -> None:
    notes = {"sandbox-namespace": "default", "sandbox-name": pod, "container-name": container}
    annotations = {f"io.kubernetes.cri.{key}": value for key, value in notes.items()}
    file = folder / name / "config.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"id": name, "annotations": annotations}))
    os.utime(file, (at, at))


def found(folder: Path) -> str | None:
    spec = spec_of(folder, "default", "p", "main")
    return spec["id"] if spec else None


def test_the_bundle_of_the_container_is_found_among_others(tmp_path: Path) -> None:
    bundle(tmp_path, "other-pod", pod="q")
    bundle(tmp_path, "other-container", container="side")
    assert found(tmp_path) is None
    bundle(tmp_path, "mine")
    assert found(tmp_path) == "mine"


def test_of_a_restarted_container_the_newest_bundle_counts(tmp_path: Path) -> None:
    bundle(tmp_path, "b-old", at=1)
    bundle(tmp_path, "a-new", at=2)
    assert found(tmp_path) == "a-new"


def test_a_bundle_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "config.json").write_text('{"annot')
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "config.json").write_text("{}")
    assert found(tmp_path) is None
