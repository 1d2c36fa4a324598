"""The files of ``make release``: built twice, and used where there is no checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from devkit.errors import DevkitError
from gpushare import __version__
from release import bundle, krew, man_pages
from release.archives import read_tar_gz
from release.recipe import ROOT
from release.supply import uv
from tests.support.builders.chart_values import IMAGES

pytestmark = [pytest.mark.needs("playbooks"), pytest.mark.timeout(1200)]

GALAXY = ROOT / "ansible/.venv/bin/ansible-galaxy"
PLUGINS = f"kubectl-gpushare-{__version__}-linux-amd64.tar.gz"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
STACK = ROOT / "Pulumi.example.yaml"


@dataclass(frozen=True)
class Built:
    """Two folders, built from the checkout and from a copy of it."""

    first: Path
    second: Path


def run(
    *command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own programs
        command, cwd=cwd, env=None if env is None else dict(env), capture_output=True, text=True, check=False
    )


def build(root: Path, images: Path, output: Path) -> Path:
    urls = ("--url=https://files.example.org", "--source=https://git.example.org/gpushare")
    command = (sys.executable, "-m", "release.bundle", f"--images={images}", f"--output={output}", *urls)
    done = run(*command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    assert done.returncode == 0, done.stderr
    return output


def copied(folder: Path) -> Path:
    """The checkout with other times and other permissions for the group, without what git ignores."""
    git = shutil.which("git") or "git"
    listed = run(git, "ls-files", "--cached", "--others", "--exclude-standard", "-z").stdout.split("\0")
    for name in reversed([each for each in listed if (ROOT / each).is_file() or (ROOT / each).is_symlink()]):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target, follow_symlinks=False)
        if not target.is_symlink():
            target.chmod(0o700 if os.access(ROOT / name, os.X_OK) else 0o600)
    (folder / "ansible/.venv").symlink_to((ROOT / "ansible/.venv").resolve())
    return folder


def with_modules_of_the_collection(checkout: Path) -> Path:
    """As after ``make setup``."""
    done = run(sys.executable, "-m", "tools.collection_modules", cwd=checkout)
    assert done.returncode == 0, done.stderr
    return checkout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("release")
    images = folder / "images.json"
    images.write_text(json.dumps(IMAGES))
    first = build(ROOT, images, folder / "first")
    copy = with_modules_of_the_collection(copied(folder / "copy"))
    return Built(first, build(copy, images, folder / "second"))


def test_two_builds_of_the_same_sources_write_the_same_bytes(built: Built) -> None:
    names = sorted(each.name for each in built.first.iterdir())
    assert names == sorted(each.name for each in built.second.iterdir())
    different = [
        name for name in names if (built.first / name).read_bytes() != (built.second / name).read_bytes()
    ]
    assert different == []


def test_a_collection_without_the_modules_that_git_lacks_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "_GALAXY", tmp_path)
    monkeypatch.setattr(bundle, "_COPIES", tmp_path / "gpushare")
    with pytest.raises(DevkitError, match="gpushare does not exist: run make setup"):
        bundle._collection("https://example.com")


def test_the_checksums_are_right(built: Built) -> None:
    done = run("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=built.first)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_wheel_renders_a_stack_without_the_checkout(built: Built, tmp_path: Path) -> None:
    (wheel,) = built.first.glob("*.whl")
    done = run(uv(), "pip", "install", "--quiet", "--no-deps", f"--target={tmp_path / 'site'}", wheel)
    assert done.returncode == 0, done.stderr
    rendered = [
        run(
            *(sys.executable, "-P", "-m", "components.render", f"--config={STACK}"),
            cwd=tmp_path,
            env={"PYTHONPATH": str(path)},
        ).stdout
        for path in (tmp_path / "site", ROOT)
    ]
    assert rendered[0] == rendered[1]
    assert "kind: Deployment" in rendered[0]


def test_wheel_and_plugins_have_the_manual_pages(built: Built) -> None:
    pages = man_pages.pages().keys()
    (wheel,) = built.first.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {Path(name).name for name in archive.namelist() if "/share/man/man1/" in name} == pages
    with tarfile.open(built.first / PLUGINS) as archive:
        plugins = {Path(name).name for name in archive.getnames() if "share/man/man1/" in name}
    assert plugins == {name for name in pages if name.startswith("kubectl-")}


def without_python(folder: Path) -> Path:
    """A PATH with what every Linux has, and without Python."""
    folder.mkdir()
    for name in (
        "sh",
        "tar",
        "gzip",
        "tail",
        "mktemp",
        "mkdir",
        "mv",
        "rm",
        "dirname",
        "basename",
        "readlink",
    ):
        (folder / name).symlink_to(shutil.which(name) or name)
    return folder


def test_the_plugins_run_through_a_link_without_any_python(built: Built, tmp_path: Path) -> None:
    path = without_python(tmp_path / "bin")
    (tmp_path / "store").mkdir()
    unpack = ["tar", "--extract", f"--file={built.first / PLUGINS}", f"--directory={tmp_path / 'store'}"]
    subprocess.run(unpack, check=True)  # noqa: S603 - our own archive
    for plugin in krew.PLUGINS:
        # As krew names it.
        link = path / f"kubectl-{plugin.name.replace('-', '_')}"
        link.symlink_to(tmp_path / "store" / plugin.program)
        done = run(link, "--help", cwd=tmp_path, env={"PATH": str(path)})
        assert done.returncode == 0, done.stderr
        assert f"Usage: kubectl {plugin.name} " in done.stdout


def test_the_archives_have_the_page_of_the_board(built: Built) -> None:
    for platform in krew.PLATFORMS:
        with tarfile.open(built.first / platform.archive) as archive:
            assert "lib/gpushare/board/page/board.html" in archive.getnames()


def test_the_one_file_runs_without_any_python(built: Built, tmp_path: Path) -> None:
    path = without_python(tmp_path / "bin")
    for name in ("kubectl-gpushare", "kubectl-inspect-cgpu"):
        shutil.copy(built.first / krew.PLATFORMS[0].one_file, path / name)
        (path / name).chmod(0o755)
    env = {"PATH": str(path), "HOME": str(tmp_path / "home")}
    with ThreadPoolExecutor() as pool:
        # At the same time, before it has been unpacked.
        starts = list(pool.map(lambda _: run(path / "kubectl-gpushare", "version", env=env), range(4)))
    assert [(each.stdout, each.stderr) for each in starts] == [(f"gpushare {__version__}\n", "")] * 4
    unpacked = list((tmp_path / "home/.cache/gpushare").iterdir())
    assert len(unpacked) == 1
    assert "Usage: kubectl inspect cgpu " in run(path / "kubectl-inspect-cgpu", "--help", env=env).stdout


def test_the_one_file_for_arm64_has_programs_for_arm64(built: Built) -> None:
    (arm,) = (each for each in krew.PLATFORMS if each.one_file.endswith("linux-arm64"))
    _, _, packed = (built.first / arm.one_file).read_bytes().partition(b'exec "$here/$program" "$@"\n')
    files = read_tar_gz(packed)
    loaders = [file for name, file in files.items() if "/ld-linux-" in name]
    programs = [files["python/bin/python3"], *loaders]
    # The field e_machine of the header of ELF; 183 is AArch64.
    assert [int.from_bytes(each.content[18:20], "little") for each in programs] == [183, 183]


def test_the_collection_has_what_galaxy_requires(built: Built) -> None:
    """The rules of galaxy-importer (its ``schema.py`` and ``collection.py``), which is not run here."""
    (tarball,) = built.first.glob("gpushare-nodes-*.tar.gz")
    files = read_tar_gz(tarball.read_bytes())
    about = json.loads(files["MANIFEST.json"].content)["collection_info"]
    assert {"README.md", "LICENSE", "CHANGELOG.md", "meta/runtime.yml"} <= set(files)
    assert b"requires_ansible" in files["meta/runtime.yml"].content
    assert re.fullmatch(r"[a-z][a-z0-9_]*", about["namespace"])
    assert re.fullmatch(r"[a-z][a-z0-9_]*", about["name"])
    assert about["version"] == __version__
    assert about["repository"].startswith("https://")
    assert about["license"] == ["Apache-2.0"]
    assert about["authors"]
    assert 1 <= len(about["tags"]) <= 20
    assert "infrastructure" in about["tags"]
    assert all(file.link == "" for file in files.values())
    roles = {name.split("/")[1] for name in files if name.startswith("roles/")}
    assert {f"roles/{role}/README.md" for role in roles} <= set(files)


def test_the_collection_installs_with_its_checksums(built: Built, tmp_path: Path) -> None:
    (tarball,) = built.first.glob("gpushare-nodes-*.tar.gz")
    words = ("--force", "--no-deps", "--offline", f"--collections-path={tmp_path}")
    done = run(GALAXY, "collection", "install", *words, tarball, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "ansible_collections/gpushare/nodes/playbooks/site.yml").exists()
