import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from release.layout import digests, pack, size

FULL = {"extender": "example.com/extender@sha256:1", "cli": "example.com/cli@sha256:2"}


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


def test_digests_go_by_the_names_they_were_pushed_with(folder: Path) -> None:
    assert list(digests(folder)) == ["extender", "cli"]


def test_a_pull_moves_manifest_configuration_and_layers(folder: Path) -> None:
    digest = digests(folder)["extender"]
    own = len((folder / "blobs/sha256" / digest.removeprefix("sha256:")).read_bytes())
    assert size(folder, digest) == own + 1510


def test_a_list_of_manifests_counts_all_its_platforms(folder: Path) -> None:
    found = digests(folder)
    assert size(folder, found["cli"]) > 2 * size(folder, found["extender"])


def test_an_archive_holds_every_blob_and_full_names(folder: Path, tmp_path: Path) -> None:
    pack(folder, FULL, tmp_path / "all.tar")
    with tarfile.open(tmp_path / "all.tar") as tar:
        names = set(tar.getnames())
        text = tar.extractfile("index.json")
        assert text is not None
        index = json.loads(text.read())
    assert {f"blobs/sha256/{path.name}" for path in (folder / "blobs/sha256").iterdir()} <= names
    given = [entry["annotations"]["io.containerd.image.name"] for entry in index["manifests"]]
    assert given == list(FULL.values())


def test_the_layout_itself_keeps_its_names(folder: Path, tmp_path: Path) -> None:
    pack(folder, FULL, tmp_path / "all.tar")
    assert list(digests(folder)) == ["extender", "cli"]
