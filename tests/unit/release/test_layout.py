"""The download size of images, with one and with several platforms."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from release.layout import digests, size


def blob(folder: Path, value: Any) -> tuple[str, int]:
    content = json.dumps(value).encode()
    digest = hashlib.sha256(content).hexdigest()
    file = folder / "blobs/sha256" / digest
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return f"sha256:{digest}", len(content)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "layout"
    one, length = blob(found, {"config": {"size": 10}, "layers": [{"size": 1000}, {"size": 500}]})
    several, _ = blob(found, {"manifests": [{"digest": one}, {"digest": one}]})
    assert length < 200
    entries = [
        {"digest": digest, "annotations": {"org.opencontainers.image.ref.name": name}}
        for name, digest in (("extender", one), ("cli", several))
    ]
    (found / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": entries}))
    return found


def test_the_size_includes_manifest_configuration_and_layers(folder: Path) -> None:
    digest = digests(folder)["extender"]
    own = len((folder / "blobs/sha256" / digest.removeprefix("sha256:")).read_bytes())
    assert size(folder, digest) == own + 1510


def test_the_size_of_a_list_of_manifests_includes_all_platforms(folder: Path) -> None:
    found = digests(folder)
    assert size(folder, found["cli"]) > 2 * size(folder, found["extender"])
