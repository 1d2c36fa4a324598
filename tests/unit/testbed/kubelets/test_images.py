"""The archive of images: what containerd will find in it."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from testbed.kubelets import images
from testbed.kubelets.files import PAUSE_IMAGE


@pytest.fixture
def archive(tmp_path: Path) -> tarfile.TarFile:
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"program")
    return tarfile.open(fileobj=io.BytesIO(images.archive(busybox)))


def content(archive: tarfile.TarFile, name: str) -> bytes:
    stream = archive.extractfile(name)
    assert stream is not None
    return stream.read()


def test_busybox_and_pause_are_two_names_of_one_layer(archive: tarfile.TarFile) -> None:
    manifest = json.loads(content(archive, "manifest.json"))
    assert [each["RepoTags"] for each in manifest] == [[images.BUSYBOX_IMAGE], [PAUSE_IMAGE]]
    digest = hashlib.sha256(content(archive, "layer.tar")).hexdigest()
    for each in manifest:
        config = json.loads(content(archive, each["Config"]))
        assert config["rootfs"]["diff_ids"] == [f"sha256:{digest}"]


def test_the_layer_holds_the_program_and_links_to_it(archive: tarfile.TarFile) -> None:
    with tarfile.open(fileobj=io.BytesIO(content(archive, "layer.tar"))) as layer:
        assert content(layer, "bin/busybox") == b"program"
        assert layer.getmember("bin/busybox").mode & 0o111
        assert layer.getmember("bin/sh").linkname == "busybox"
