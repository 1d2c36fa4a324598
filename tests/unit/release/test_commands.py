"""Command lines that no other test runs, and errors about missing programs."""

import json
from pathlib import Path

import pytest

from devkit.errors import DevkitError
from gpushare.errors import ConfigError
from release import base, needs, supply
from release.podman import Store

STORE = Store(Path("/cache/store"), Path("/run/x"))


def test_every_command_uses_the_separate_store() -> None:
    commands = [
        STORE.build(Path("/src"), Path("/src/Containerfile"), "name", {}),
        STORE.export("cli", Path("/layout"), several=False),
        STORE.remove_list("cli"),
        STORE.create_list("cli", ["linux/amd64", "linux/arm64"]),
    ]
    for command in commands:
        assert command[:3] == ["podman", "--root=/cache/store", "--runroot=/run/x"]


def test_only_archives_of_the_distribution_are_used(tmp_path: Path) -> None:
    with pytest.raises(DevkitError, match="BASE_IMAGE"):
        base.sources(tmp_path)
    (tmp_path / "sources.list").write_text("")
    assert base.sources(tmp_path) == tmp_path / "sources.list"
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "third-party.sources").write_text("")
    (tmp_path / "sources.list.d" / "debian.sources").write_text("")
    assert base.sources(tmp_path).name == "debian.sources"


def test_missing_programs_are_reported_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DevkitError, match=r"missing: podman, mmdebstrap .*BASE_IMAGE"):
        needs.look()
    with pytest.raises(DevkitError, match=r"missing: podman \(apt-get install podman\)"):
        needs.look("python:3.11")
    with pytest.raises(DevkitError, match="skopeo"):
        needs.look_for_push()


def test_images_are_signed_by_digest_with_their_sbom() -> None:
    for name in ("cli", "samples"):
        sign, attest = supply.sign_commands(name, f"example.com/{name}@sha256:1")
        assert sign[-1] == attest[-1] == f"example.com/{name}@sha256:1"
        assert any(word.endswith(f"dist/{name}.cdx.json") for word in attest)


def test_newer_images_of_the_same_names_are_pulled_on_request_only() -> None:
    for pull in (False, True):
        command = STORE.build(Path("/src"), Path("/src/Containerfile"), "name", {}, pull=pull)
        assert ("--pull=always" in command) is pull


def test_signing_requires_a_build(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="make images"):
        supply.references(tmp_path / "images.json")
    (tmp_path / "images.json").write_text(json.dumps({"cli": "a@sha256:1"}))
    assert supply.references(tmp_path / "images.json") == {"cli": "a@sha256:1"}
