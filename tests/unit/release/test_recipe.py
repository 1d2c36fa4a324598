from pathlib import Path

import pytest

from gpushare.errors import ConfigError
from release.recipe import Order, inputs, key, reference, services, uv_version

TEXT = "ARG B\nFROM ${B} AS runtime\nFROM ${B} AS builder\nFROM runtime AS one\nRUN x\nFROM runtime AS two\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("Containerfile", ".containerignore", ".ci/bootstrap", "release/a.py", "LICENSE"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for name in ("README.md", "pyproject.toml", "uv.lock", "gpushare/a.py", "gpushare/__pycache__/a.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def test_services_are_the_stages_on_the_runtime() -> None:
    assert services(TEXT) == ["one", "two"]


def test_the_same_sources_have_the_same_key(root: Path) -> None:
    assert key(Order(), "", root) == key(Order(registry="other.example.com"), "", root)


@pytest.mark.parametrize("name", ["Containerfile", "uv.lock", "gpushare/a.py", "release/a.py"])
def test_another_source_is_another_key(root: Path, name: str) -> None:
    before = key(Order(), "", root)
    (root / name).write_text("changed")
    assert key(Order(), "", root) != before


def test_what_moves_from_one_file_to_the_next_is_another_key(root: Path) -> None:
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


def test_bytecode_is_no_source(root: Path) -> None:
    assert not [path for path in inputs(root) if path.suffix == ".pyc"]


def test_the_version_of_uv_is_that_of_the_bootstrap() -> None:
    assert uv_version("set -eu\nUV_VERSION=1.2.3\n") == "1.2.3"
    with pytest.raises(ConfigError, match="UV_VERSION"):
        uv_version("set -eu\n")


def test_a_reference_names_the_digest() -> None:
    assert reference("example.com/a", "cli", "sha256:1") == "example.com/a/cli@sha256:1"


@pytest.mark.parametrize(
    "registry", ["example.com", "example.com:5000/a/b-c", "localhost:1/x", "127.0.0.1:5000/gpushare"]
)
def test_a_registry_may_have_a_port_and_folders(registry: str) -> None:
    assert Order(registry=registry).registry == registry


@pytest.mark.parametrize("registry", ["", "https://example.com", "example.com/A", "example.com/", "a b"])
def test_what_cannot_be_a_registry_is_refused(registry: str) -> None:
    with pytest.raises(ConfigError, match="REGISTRY"):
        Order(registry=registry)


def test_a_platform_has_an_operating_system() -> None:
    with pytest.raises(ConfigError, match="'arm64' is invalid"):
        Order(base="python", platforms=("arm64",))


def test_several_platforms_need_a_base_that_has_them() -> None:
    with pytest.raises(ConfigError, match="BASE_IMAGE"):
        Order(platforms=("linux/amd64", "linux/arm64"))
