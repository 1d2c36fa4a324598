"""The command lines, and what is said where a program is missing."""

import json
from pathlib import Path

import pytest

from gpushare.errors import ConfigError
from release import base, needs, supply
from release.podman import Store, copy, stage_name
from testbed.errors import TestbedError

STORE = Store(Path("/cache/store"), Path("/run/x"))


def test_every_command_is_on_a_store_of_our_own() -> None:
    commands = [
        STORE.build(Path("/src"), Path("/src/Containerfile"), "name", {}),
        STORE.export("cli", Path("/layout"), several=False),
        STORE.forget("cli"),
        STORE.join("cli", ["linux/amd64", "linux/arm64"]),
    ]
    for command in commands:
        assert command[:3] == ["podman", "--root=/cache/store", "--runroot=/run/x"]


def test_a_build_takes_arguments_and_secrets_and_no_time() -> None:
    command = STORE.build(Path("/s"), Path("/s/C"), "n", {"A": "1"}, {"id": Path("/p")}, ["--target=cli"])
    assert {"--build-arg=A=1", "--secret=id=id,src=/p", "--target=cli", "--timestamp=0"} <= set(command)


def test_the_images_for_several_platforms_have_names_of_their_own() -> None:
    assert stage_name("cli", "linux/arm64") == "localhost/gpushare/cli:linux-arm64"
    assert stage_name("cli") == "localhost/gpushare/cli"


def test_a_copy_keeps_digests_and_all_platforms() -> None:
    assert {"--all", "--preserve-digests"} <= set(copy("oci:a:b", "docker://c"))


def test_another_release_is_another_base() -> None:
    assert base.name("bookworm") != base.name("trixie")


def test_the_compiler_is_in_a_base_of_its_own() -> None:
    assert base.name("bookworm") != base.name("bookworm", base.COMPILER)
    tar, listed = Path("base.tar"), Path("sources.list")
    assert not [word for word in base.command("bookworm", tar, listed) if "gcc" in word]
    assert [word for word in base.command("bookworm", tar, listed, base.COMPILER) if "gcc" in word]


def test_the_release_is_that_of_the_machine() -> None:
    assert base.codename('NAME="Debian"\nVERSION_CODENAME=bookworm\n') == "bookworm"
    with pytest.raises(TestbedError, match="BASE_IMAGE"):
        base.codename('NAME="Other"\n')


def test_only_the_distributions_own_archives_are_used(tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="BASE_IMAGE"):
        base.sources(tmp_path)
    (tmp_path / "sources.list").write_text("")
    assert base.sources(tmp_path) == tmp_path / "sources.list"
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "third-party.sources").write_text("")
    (tmp_path / "sources.list.d" / "debian.sources").write_text("")
    assert base.sources(tmp_path).name == "debian.sources"


def test_what_is_missing_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TestbedError, match=r"missing: podman, mmdebstrap .*BASE_IMAGE"):
        needs.look()
    with pytest.raises(TestbedError, match=r"missing: podman \(apt-get install podman\)"):
        needs.look("python:3.11")
    with pytest.raises(TestbedError, match="skopeo"):
        needs.look_for_push()


def test_signatures_go_by_digest() -> None:
    sign, attest = supply.sign_commands("cli", "example.com/cli@sha256:1")
    assert sign[-1] == attest[-1] == "example.com/cli@sha256:1"


def test_without_a_build_there_is_nothing_to_sign(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="make images"):
        supply.references(tmp_path / "images.json")
    (tmp_path / "images.json").write_text(json.dumps({"cli": "a@sha256:1"}))
    assert supply.references(tmp_path / "images.json") == {"cli": "a@sha256:1"}
