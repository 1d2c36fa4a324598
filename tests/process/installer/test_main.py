import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpushare.contract import ISOLATION_INSTALLER_PORT
from gpushare.installer.install import install
from gpushare.installer.main import command, install_command, uninstall, uninstall_command
from gpushare.installer.settings import InstallSettings, NodeSettings
from gpushare.isolation.versions import current_version, installed_versions
from tests.support.builders.library_package import package, packaged
from tests.support.builders.settings import parsed
from tests.support.fixtures import isolation

OWN = Path("/usr/local/lib/gpushare")


def run(*arguments: str) -> str:
    done = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return tmp_path / "node"


@pytest.fixture
def where(node: Path) -> list[str]:
    return [f"--folder={node}", f"--record={node.parent}/allocations.json"]


def used(node: Path, *versions: str) -> None:
    grants = [{"enforcement": {"library": version}} for version in versions]
    (node.parent / "allocations.json").write_text(json.dumps({"allocations": grants}))


def test_the_defaults_are_the_paths_of_manifests_and_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPS_PORT", raising=False)
    settings = parsed(install_command, InstallSettings)
    assert (settings.package, settings.folder) == (OWN, Path("/var/lib/gpushare"))
    assert settings.record == Path("/var/lib/kubelet/device-plugins/gpushare/allocations.json")
    assert (settings.interval_seconds, settings.ops_port) == (60.0, ISOLATION_INSTALLER_PORT)


def test_the_installer_has_no_kubeconfig_option() -> None:
    assert "kubeconfig" not in {each.name for each in (*install_command.params, *uninstall_command.params)}


def test_install_prints_the_version(tmp_path: Path, node: Path, where: list[str]) -> None:
    assert run("install", f"--package={package(tmp_path / 'p')}", *where) == f"{current_version(node)}\n"


def removed(node: Path, *, remove_all: bool = False) -> Mapping[str, str]:
    where = NodeSettings(folder=node, record=node.parent / "allocations.json")
    return uninstall(where, remove_all=remove_all, settle_s=0)


def test_uninstall_reports_what_remains_and_why(tmp_path: Path, node: Path) -> None:
    old, new = (install(package(tmp_path / name, name), node) for name in ("old", "new"))
    used(node, old)
    assert removed(node) == {old: "in use by containers"}
    assert (installed_versions(node), current_version(node)) == ((old,), None)
    assert new != old


def test_uninstall_all_removes_versions_that_may_be_in_use(tmp_path: Path, node: Path) -> None:
    version = install(package(tmp_path / "p"), node)
    reason = f"may be in use: {tmp_path}/allocations.json does not exist"
    assert removed(node) == {version: reason}
    assert removed(node, remove_all=True) == {}
    assert installed_versions(node) == ()


def test_status_lists_versions_and_their_use(tmp_path: Path, node: Path, where: list[str]) -> None:
    assert run("status", *where) == f"no version in {node}\n"
    in_use, idle, new = (install(package(tmp_path / name, name), node) for name in ("a", "b", "c"))
    used(node, in_use)
    lines = dict(line.split("  ") for line in run("status", *where).splitlines())
    assert lines == {in_use: "in use by containers", idle: "unused", new: "new containers get it"}


@isolation.needs_compiler
def test_a_program_starts_with_the_installed_library(tmp_path: Path, node: Path, where: list[str]) -> None:
    built = isolation.build(tmp_path / "p", tmp_path)
    run("install", f"--package={packaged(built.parent)}", *where)
    done = subprocess.run(
        ["/usr/bin/env", "true"],
        env={"LD_PRELOAD": str(node / "current" / built.name)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
