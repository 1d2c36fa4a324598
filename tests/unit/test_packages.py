"""``.ci/packages`` and the make targets that call it: the solver of apt, with a fake system and archive.

apt is real; it cannot install, because its configuration has no dpkg.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "packages"
TOOLS = ("apt-get", "awk", "cat", "dirname", "dpkg", "grep", "mktemp", "rm", "sh", "uname")
ARCHIVE = (
    *(
        "apt-utils",
        "chromium",
        "containernetworking-plugins",
        "e2fsprogs",
        "gcc",
        "gcc-aarch64-linux-gnu",
        "gpg",
        "iproute2",
        "iptables",
    ),
    *("libc6-dev", "libc6-dev-arm64-cross", "mmdebstrap", "openssh-client", "podman", "python3-venv"),
    *("qemu-user", "runc", "skopeo", "systemd-container"),
)
DOCKER = (
    "Package: containerd.io\nVersion: 1.7.27-1\nConflicts: containerd, runc\nProvides: containerd\n",
    "Package: docker-ce\nVersion: 5:28.3.3-1\nDepends: containerd.io\n",
)
"""Docker's own packages, with the relations that they had when they provided no runc."""

pytestmark = pytest.mark.needs("apt")


@dataclass
class Machine:
    """This machine, with a fake view of apt and a fake PATH."""

    folder: Path
    installed: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    archive: tuple[str, ...] = ARCHIVE
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str) -> tuple[int, str]:
        """Exit code and standard error of the script, once apt has read the archive."""
        self._write()
        env = {
            "PATH": str(self.folder / "bin"),
            "APT_CONFIG": str(self.folder / "apt.conf"),
            "GPUSHARE_CACHE": str(self.folder / "cache"),
            **self.env,
        }
        subprocess.run(["apt-get", "update", "-qq"], env=env, check=True)  # noqa: S607 - of PATH
        ended = subprocess.run(  # noqa: S603 - our own script
            ["/bin/sh", SCRIPT, *arguments], env=env, capture_output=True, text=True, check=False
        )
        return ended.returncode, ended.stderr

    def _write(self) -> None:
        programs = self.folder / "bin"
        programs.mkdir()
        for name in TOOLS:
            (programs / name).symlink_to(shutil.which(name) or name)
        for name in self.programs:
            _program(programs / name, "true")
        _program(programs / "id", "echo 0")
        for name in (
            "etc/apt.conf.d",
            "etc/preferences.d",
            "state/lists/partial",
            "cache/archives/partial",
            "archive",
            "cache/busybox-static/bin",
        ):
            (self.folder / name).mkdir(parents=True)
        _program(self.folder / "cache/busybox-static/bin/busybox", "true")
        for package, program in (
            ("prometheus", "promtool"),
            ("prometheus", "prometheus"),
            ("docker-registry", "docker-registry"),
            ("user-mode-linux", "linux.uml"),
        ):
            folder = self.folder / "cache" / package / "usr" / "bin"
            folder.mkdir(parents=True, exist_ok=True)
            _program(folder / program, "true")
        status = [_stanza(text) + "Status: install ok installed\n" for text in self.installed]
        (self.folder / "status").write_text("\n".join(status))
        archive = [
            _stanza(f"Package: {name}\nVersion: 1\n") + f"Filename: {name}.deb\nSize: 1\n"
            for name in self.archive
        ]
        (self.folder / "archive" / "Packages").write_text("\n".join(archive))
        (self.folder / "sources.list").write_text(f"deb [trusted=yes] file:{self.folder}/archive ./\n")
        (self.folder / "apt.conf").write_text(f"""\
Dir "{self.folder}";
Dir::Etc "{self.folder}/etc";
Dir::Etc::SourceList "{self.folder}/sources.list";
Dir::State "{self.folder}/state";
Dir::State::Status "{self.folder}/status";
Dir::Cache "{self.folder}/cache";
Dir::Bin::dpkg "/bin/false";
APT::Architecture "amd64";
APT::Sandbox::User "{os.environ.get("USER", "root")}";
""")


def _program(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n")
    path.chmod(0o755)


def _stanza(text: str) -> str:
    return f"{text}Architecture: amd64\nMaintainer: x\nDescription: x\n"


def test_if_apt_would_remove_docker_nothing_is_installed_and_both_names_are_printed(tmp_path: Path) -> None:
    code, output = Machine(tmp_path, DOCKER).run("demo")
    assert code == 1
    assert "apt would remove docker-ce containerd.io: nothing was installed" in output
    assert 'GPUSHARE_WITHOUT_PACKAGES="' in output


def test_a_runc_of_another_vendor_is_used(tmp_path: Path) -> None:
    code, output = Machine(tmp_path, DOCKER, programs=("runc",)).run("--print", "demo")
    assert code == 0
    assert "packages: not installing" in output
    assert " podman" in output
    assert " runc" not in output
    assert "remove" not in output


def test_excluded_packages_are_not_installed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, DOCKER, env={"GPUSHARE_WITHOUT_PACKAGES": "runc gcc"})
    code, output = machine.run("--print", "demo")
    assert (code, " runc" in output, " gcc" in output, " podman" in output) == (0, False, False, True)


def test_the_demo_needs_fewer_packages_than_the_tests(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    _, demo = Machine(tmp_path / "a").run("--print", "demo")
    _, tests = Machine(tmp_path / "b").run("--print", "test")
    assert " systemd-container" in tests
    assert " systemd-container" not in demo


def test_an_upgrade_of_an_installed_package_is_printed(tmp_path: Path) -> None:
    old = ("Package: runc\nVersion: 0\n",)
    code, output = Machine(tmp_path, old).run("--print", "demo")
    assert (code, "this upgrades runc" in output) == (0, True)


def test_the_error_for_a_package_that_the_archive_lacks_has_a_remedy(tmp_path: Path) -> None:
    code, output = Machine(tmp_path, archive=tuple({*ARCHIVE} - {"podman"})).run("demo")
    assert (code, "podman" in output, "GPUSHARE_WITHOUT_PACKAGES" in output) == (1, True, True)


def test_the_error_for_an_unknown_set_names_the_known_ones() -> None:
    argv = [str(SCRIPT), "everything"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    assert (ended.returncode, "demo|test" in ended.stderr) == (2, True)


@pytest.mark.parametrize("target", ["setup", "docs", "preview", "up", "lint", "check", "monitoring"])
def test_these_targets_install_no_system_package(target: str) -> None:
    assert ".ci/packages" not in planned(target)
    assert "apt" not in (ROOT / ".ci" / "bootstrap").read_text().replace("(apt-get install python3-venv)", "")


@pytest.mark.parametrize(("target", "chosen"), [("demo", "demo"), ("test", "test"), ("integration", "test")])
def test_these_targets_install_all_system_packages_first(target: str, chosen: str) -> None:
    lines = planned(target).splitlines()
    assert lines[0] == f".ci/packages {chosen}"
    assert lines[1] == ".ci/bootstrap"


def planned(target: str) -> str:
    """The commands that make would run in a fresh clone."""
    argv = ["make", "--dry-run", "--always-make", "--no-print-directory", target, "STACK=x"]
    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603 - as above
    return ended.stdout


def bootstrap_with(fake_uv: str, folder: Path, times: int = 1, **env: str) -> None:
    """Run the script in a folder with this uv."""
    for name in (".ci", "own", "policy"):
        (folder / name).mkdir()
    shutil.copy(ROOT / ".ci" / "bootstrap", folder / ".ci")
    _program(folder / "own" / "uv", fake_uv)
    path = f"{folder}/.venv/bin:{folder}/own:{os.environ['PATH']}"
    given = {**os.environ, "PATH": path, "GPUSHARE_CACHE": str(folder / "cache"), **env}
    for _ in range(times):
        subprocess.run([str(folder / ".ci" / "bootstrap")], env=given, check=True)  # noqa: S603 - our own script


def test_a_second_setup_in_the_activated_environment_keeps_the_uv_of_the_user(tmp_path: Path) -> None:
    """The fake uv creates the directory that the real one creates."""
    bootstrap_with("mkdir -p .venv/bin", tmp_path, times=2)
    assert (tmp_path / ".venv" / "bin" / "uv").resolve() == tmp_path / "own" / "uv"


@pytest.mark.parametrize(("selected", "used"), [("", "/usr/bin/python3"), ("/opt/python", "/opt/python")])
def test_environments_have_the_python_of_the_distribution_unless_another_is_selected(
    selected: str, used: str, tmp_path: Path
) -> None:
    if not selected and not _is_supported("/usr/bin/python3"):
        used = ""
    bootstrap_with('mkdir -p .venv/bin; echo "$UV_PYTHON" >used', tmp_path, UV_PYTHON=selected)
    assert (tmp_path / "used").read_text().strip() == used


def _is_supported(python: str) -> bool:
    argv = [python, "-c", "import sys; print(sys.version_info[:2] in ((3, 11), (3, 12)))"]
    return "True" in subprocess.run(argv, capture_output=True, text=True, check=False).stdout  # noqa: S603
