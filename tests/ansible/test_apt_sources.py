"""The role packages on a host that already has the repository, with the real apt.

Apt reads no source at all if two files have different keys for one repository.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpushare.nodes.plugins.plugin_utils.package_versions import apt_source
from tests.ansible.cores import CORES, Ended, part_of, play, printed
from tools.role_docs import ROLES

pytestmark = pytest.mark.skipif(not shutil.which("apt-get"), reason="apt-get is not installed")

TOOLKIT = "https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH)"
CUDA = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64"
DOCKER = "https://download.docker.com/linux/debian"
KEY = {"file": str(ROLES / "packages/files/gpgkey"), "url": "", "fingerprint": "", "sha256": ""}
# As NVIDIA's instructions and its package cuda-keyring write them.
LISTED = f"""\
# deb {DOCKER}/ trixie stable
deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg] {TOOLKIT} /
deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] {CUDA}/ /
deb {DOCKER} bookworm stable
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources of a host; returns their file."""
    (tmp_path / "sources.list.d").mkdir()
    listed = tmp_path / "sources.list.d/nvidia.list"
    listed.write_text(LISTED)
    settings = {
        "Dir::Etc": tmp_path,
        "Dir::State::lists": tmp_path / "lists",
        "Dir::Cache": tmp_path / "cache",
    }
    (tmp_path / "apt.conf").write_text("".join(f'{key} "{value}";\n' for key, value in settings.items()))
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    return listed


def add(folder: Path, core: str, url: str, suites: str = "/") -> Ended:
    """Run the role in check mode."""
    settings = {
        "packages_repository_name": "test",
        "packages_repository_url": url,
        "packages_repository_suites": suites,
        "packages_repository_settings": "test_repo",
        "packages_repository_key": KEY,
        "__packages_key_file": f"{folder}/gpushare-key.asc",
        "__packages_repository_file": f"{folder}/sources.list.d/gpushare-test.sources",
    }
    tasks = [{"ansible.builtin.setup": {"gather_subset": ["min"]}}, part_of("packages", "repository")]
    return play(core, folder, tasks, "--check", **settings)


@pytest.mark.parametrize("core", CORES)
def test_a_repository_of_the_host_is_not_added_again(core: str, host: Path, tmp_path: Path) -> None:
    done = add(tmp_path, core, TOOLKIT)
    assert done.returncode == 0, done.stdout
    assert "changed=0" in done.stdout
    assert f"{host}:2 already has {TOOLKIT}" in printed(done)


def test_another_repository_is_added(host: Path, tmp_path: Path) -> None:
    del host
    done = add(tmp_path, "2.19", DOCKER, "trixie")
    assert done.returncode == 0, done.stdout
    assert "changed=0" not in done.stdout


@pytest.mark.parametrize(
    ("url", "suites", "line"),
    [
        (TOOLKIT, "/", 2),
        (CUDA, "/", 3),
        (f"{CUDA}/", "/", 3),
        (CUDA, "stable", 0),
        (DOCKER, "bookworm", 4),
        (DOCKER, "trixie bookworm", 4),
        (DOCKER, "trixie", 0),
        (f"{DOCKER}x", "bookworm", 0),
    ],
)
def test_a_source_is_found_by_its_url_and_suite(url: str, suites: str, line: int, host: Path) -> None:
    variables = yaml.safe_load((ROLES / "packages/vars/main.yml").read_text())
    command = variables["__packages_list_targets"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own
    assert apt_source(listing, url, suites) == (f"{host}:{line}" if line else "")


def test_the_files_of_the_role_do_not_count() -> None:
    own = f"/etc/apt/sources.list.d/gpushare-nvidia-driver.sources:1 {CUDA}/ "
    assert apt_source(own, CUDA, "/") == ""
    assert apt_source(f"{own}\n/etc/apt/sources.list:1 {CUDA}/ ", CUDA, "/") == "/etc/apt/sources.list:1"
