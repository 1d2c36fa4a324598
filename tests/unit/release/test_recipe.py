"""Cache keys of builds, and invalid settings; tests/integration/test_images.py builds for real."""

from pathlib import Path
from typing import Any

import pytest

from gpushare.errors import ConfigError
from release.recipe import ROOT, Order, inputs, key, pinned_base


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("Containerfile", ".containerignore", ".ci/bootstrap", "release/podman.py", "LICENSE"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for name in ("README.md", "pyproject.toml", "uv.lock", "gpushare/a.py", "gpushare/__pycache__/a.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_equal_sources_have_the_same_key(root: Path) -> None:
    assert key(Order(), "", root) == key(Order(registry="other.example.com"), "", root)


@pytest.mark.parametrize("name", ["Containerfile", "uv.lock", "gpushare/a.py", "release/podman.py"])
def test_a_changed_source_changes_the_key(root: Path, name: str) -> None:
    before = key(Order(), "", root)
    (root / name).write_text("changed")
    assert key(Order(), "", root) != before


def test_text_that_moves_between_files_changes_the_key(root: Path) -> None:
    (root / "gpushare/a.py").write_text("ab")
    (root / "gpushare/b.py").write_text("c")
    before = key(Order(), "", root)
    (root / "gpushare/a.py").write_text("a")
    (root / "gpushare/b.py").write_text("bc")
    assert key(Order(), "", root) != before


def test_base_compiler_platforms_source_and_revision_are_in_the_key(root: Path) -> None:
    several = Order(base="python", platforms=("linux/amd64", "linux/arm64"))
    keys = {key(Order(), "", root), key(Order(base="python"), "", root), key(several, "", root)}
    labelled = {key(Order(), "abc", root), key(Order(source="https://example.com"), "", root)}
    compiled = {key(Order(base="python", compiler="gcc"), "", root), key(Order(compiler="gcc"), "", root)}
    assert len(keys | labelled | compiled) == 7


def test_bytecode_is_not_a_source(root: Path) -> None:
    assert not [path for path in inputs(root) if path.suffix == ".pyc"]


@pytest.mark.parametrize("registry", ["", "https://example.com", "example.com/A", "example.com/", "a b"])
def test_an_invalid_registry_is_rejected(registry: str) -> None:
    with pytest.raises(ConfigError, match="REGISTRY"):
        Order(registry=registry)


def test_a_platform_without_an_operating_system_is_rejected() -> None:
    with pytest.raises(ConfigError, match="'arm64' is invalid"):
        Order(base="python", platforms=("arm64",))


def test_platforms_require_a_base_image() -> None:
    with pytest.raises(ConfigError, match="BASE_IMAGE"):
        Order(platforms=("linux/amd64", "linux/arm64"))


def test_files_of_a_release_that_are_not_in_an_image_do_not_build_the_images_again() -> None:
    names = {str(path.relative_to(ROOT)) for path in inputs()}
    assert "release/build.py" in names
    assert not {"release/bundle.py", "release/krew.py"} & names


def test_the_packages_of_the_base_are_in_the_key(root: Path) -> None:
    keys = {key(Order(), "", root, bases=bases) for bases in ([], ["base:1"], ["base:2"])}
    assert len(keys) == 3


def test_how_the_base_came_about_is_not_in_the_key(root: Path) -> None:
    """Its content is."""
    asked = [Order(), Order(refresh=True), Order(snapshots="https://snapshot.example.com")]
    assert len({key(each, "", root, bases=["base:1"]) for each in asked}) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"snapshots": "https://s", "base": "python"}, "SNAPSHOT_URL is for a base from apt packages"),
        ({"snapshots": "https://s", "refresh": True}, r"raise its day in release/snapshot\.py"),
        ({"base": "python@sha256:1", "refresh": True}, "names a digest, which never changes"),
    ],
)
def test_settings_that_exclude_each_other_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Order(**settings)


def test_the_pinned_base_is_that_of_the_containerfile() -> None:
    assert pinned_base((ROOT / "Containerfile").read_text()).startswith("docker.io/library/python:3.11-slim")
    with pytest.raises(ConfigError, match="no line ARG BASE_IMAGE"):
        pinned_base("FROM scratch\n")
