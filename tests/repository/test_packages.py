"""``.ci/packages`` and the make targets that call it: the solver of apt, with a fake system and archive.

apt is real; it cannot install, because its configuration has no dpkg.
"""

import fcntl
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "packages"
TOOLS = (
    *("apt-cache", "apt-config", "apt-get", "awk", "cat", "dirname", "dpkg", "grep", "head", "mktemp", "rm"),
    *("sed", "seq", "sh", "sleep", "uname"),
)
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
    *("libc6-dev", "libc6-dev-arm64-cross", "libseccomp-dev", "mmdebstrap", "openssh-client", "pkg-config"),
    *("podman", "python3-venv", "qemu-user", "skopeo", "systemd-container"),
)
DOCKER = (
    "Package: containerd.io\nVersion: 1.7.27-1\nConflicts: containerd, runc\nProvides: containerd\n",
    "Package: docker-ce\nVersion: 5:28.3.3-1\nDepends: containerd.io\n",
)
"""Docker's own packages, with the relations that they had when they provided no runc."""
PODMAN = (*({*ARCHIVE} - {"podman"}), "runc", "Package: podman\nVersion: 1\nDepends: runc\n")
"""An archive with a package that cannot be installed beside them."""

pytestmark = pytest.mark.needs("apt")


@dataclass
class Machine:
    """This machine, with a fake view of apt and a fake PATH."""

    folder: Path
    installed: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    archive: tuple[str, ...] = ARCHIVE
    """Names, or the first lines of a package."""
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str) -> tuple[int, str]:
        """Exit code and standard error of the script, once apt has read the archive."""
        self.write()
        subprocess.run(["apt-get", "update", "-qq"], env=self._environment, check=True)  # noqa: S607 - of PATH
        with self.start(*arguments) as started:
            output = started.communicate()[1]
        return started.returncode, output

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """The script under way."""
        argv = ["/bin/sh", str(SCRIPT), *arguments]
        return subprocess.Popen(argv, env=self._environment, stderr=subprocess.PIPE, text=True)  # noqa: S603

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "PATH": str(self.folder / "bin"),
            "APT_CONFIG": str(self.folder / "apt.conf"),
            "GPUSHARE_CACHE": str(self.folder / "cache"),
            **self.env,
        }

    def write(self) -> None:
        """Write programs and the configuration of apt."""
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
            _stanza(text if "\n" in text else f"Package: {text}\nVersion: 1\n") + "Filename: a.deb\nSize: 1\n"
            for text in self.archive
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


@pytest.mark.parametrize(("required", "code"), [("", 0), ("1", 1)])
def test_what_would_remove_docker_is_refused_alone_and_both_names_are_printed(
    tmp_path: Path, required: str, code: int
) -> None:
    machine = Machine(tmp_path, DOCKER, archive=PODMAN, env={"GPUSHARE_REQUIRE_ALL": required})
    ended, output = machine.run("--print", "demo")
    assert ended == code
    assert "not installing podman: apt would remove docker-ce containerd.io\n" in output
    assert 'GPUSHARE_WITHOUT_PACKAGES="podman"' in output
    assert " gcc" in line_with(output, "with dependencies")
    assert " podman" not in line_with(output, "with dependencies")


def line_with(output: str, text: str) -> str:
    return next(line for line in output.splitlines() if text in line)


def test_a_program_of_another_vendor_is_used(tmp_path: Path) -> None:
    code, output = Machine(tmp_path, DOCKER, ("podman",), PODMAN).run("--print", "demo")
    assert code == 0
    assert "packages: not installing" in output
    assert " gcc" in output
    assert " podman" not in output
    assert "remove" not in output


def test_excluded_packages_are_not_installed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, DOCKER, env={"GPUSHARE_WITHOUT_PACKAGES": "pkg-config gcc"})
    code, output = machine.run("--print", "demo")
    assert (code, " pkg-config" in output, " gcc" in output, " podman" in output) == (0, False, False, True)


def test_the_demo_needs_fewer_packages_than_the_tests(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    _, demo = Machine(tmp_path / "a").run("--print", "demo")
    _, tests = Machine(tmp_path / "b").run("--print", "test")
    assert " systemd-container" in tests
    assert " systemd-container" not in demo


SYSTEMD = ("Package: systemd\nVersion: 2\n", "Package: systemd-boot\nSource: systemd\nVersion: 2\n")
"""Installed packages of one source."""


def newer(depends: str, versions: tuple[str, ...] = ("3",)) -> tuple[str, ...]:
    """An archive with newer versions of installed packages, and the package that depends on ``depends``."""
    container = (f"Package: systemd-container\nVersion: {each}\nDepends: {depends}\n" for each in versions)
    kept = tuple({*ARCHIVE} - {"systemd-container"})
    return (*kept, *container, *(text.replace("Version: 2", "Version: 3") for text in SYSTEMD))


def test_a_package_is_installed_without_the_upgrades_that_apt_adds(tmp_path: Path) -> None:
    code, output = Machine(tmp_path, SYSTEMD, archive=newer("systemd (>= 1)")).run("--print", "test")
    assert code == 0
    assert " systemd-container" in line_with(output, "with dependencies")
    assert not {"systemd", "systemd-boot"} & {*line_with(output, "with dependencies").split()}


def test_an_older_version_is_installed_if_the_newest_needs_an_upgrade(tmp_path: Path) -> None:
    archive = newer("systemd (<< 3)", ("2",)) + newer("systemd (>= 3)")[-3:-2]
    code, output = Machine(tmp_path, SYSTEMD, archive=archive).run("--print", "test")
    assert code == 0
    assert " systemd-container=2" in line_with(output, "with dependencies")
    assert " systemd " not in line_with(output, "with dependencies")


def test_what_needs_an_upgrade_is_refused_alone_with_the_packages(tmp_path: Path) -> None:
    code, output = Machine(tmp_path, SYSTEMD, archive=newer("systemd (>= 3)")).run("--print", "test")
    assert code == 0
    assert "not installing systemd-container: apt would upgrade systemd" in output
    assert 'GPUSHARE_WITHOUT_PACKAGES="systemd-container"' in output
    assert " skopeo" in line_with(output, "with dependencies")


def test_pins_of_the_user_are_kept(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/preferences").write_text("Package: podman\nPin: version *\nPin-Priority: -1\n")
    _, output = machine.run("--print", "demo")
    assert "not installing podman: " in output


@pytest.mark.parametrize(("required", "code"), [("", 0), ("1", 1)])
def test_a_package_that_the_archive_lacks_is_named_alone(tmp_path: Path, required: str, code: int) -> None:
    archive = tuple({*ARCHIVE} - {"chromium"})
    machine = Machine(tmp_path, archive=archive, env={"GPUSHARE_REQUIRE_ALL": required})
    ended, output = machine.run("--print", "all")
    assert ended == code
    assert "not installing chromium: " in output
    assert 'GPUSHARE_WITHOUT_PACKAGES="chromium"' in output
    assert " qemu-user" in line_with(output, "with dependencies")


def test_packages_that_exclude_each_other_are_not_installed_together(tmp_path: Path) -> None:
    archive = (*({*ARCHIVE} - {"podman"}), "Package: podman\nVersion: 1\nConflicts: iptables\n")
    code, output = Machine(tmp_path, archive=archive).run("--print", "demo")
    assert code == 0
    assert "not installing podman: " in output
    assert " iptables" in line_with(output, "with dependencies")
    assert 'GPUSHARE_WITHOUT_PACKAGES="podman"' in output


def test_without_apt_what_is_missing_is_named(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write()
    (tmp_path / "bin/apt-get").unlink()
    with machine.start("demo") as run:
        output = run.communicate()[1]
    assert run.returncode == 0
    assert output.startswith("packages: this is not Debian or Ubuntu; not installed: python3-venv ")


@pytest.mark.parametrize("lock", ["state/lists/lock", "lock-frontend", "lock"])
def test_a_lock_of_another_apt_is_waited_for_before_packages_are_chosen(tmp_path: Path, lock: str) -> None:
    machine = Machine(tmp_path, archive=())
    machine.write()
    with (tmp_path / lock).open("w") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        with machine.start("demo") as run:
            assert run.stderr is not None
            line = run.stderr.readline()
            assert line.startswith("packages: waiting up to 10 min for another apt: ")
            assert f"{tmp_path / lock}. It is held by process {os.getpid()} " in line
            fcntl.lockf(held, fcntl.LOCK_UN)
            rest = run.stderr.read()
    assert run.returncode == 0
    assert "not installing podman" in rest
    assert "using the existing lists" not in rest


def test_the_error_for_an_unknown_set_names_the_known_ones() -> None:
    argv = [str(SCRIPT), "everything"]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - our own script
    assert (ended.returncode, "demo|test|all" in ended.stderr) == (2, True)


@pytest.mark.parametrize("target", ["setup", "docs", "preview", "up", "lint", "check", "generate"])
def test_these_targets_install_no_system_package(target: str) -> None:
    assert ".ci/packages" not in planned(target)
    assert "apt" not in (ROOT / ".ci" / "bootstrap").read_text().replace("(apt-get install python3-venv)", "")


@pytest.mark.parametrize(
    ("target", "chosen"), [("demo", "demo"), ("test", "test"), ("test-integration", "test")]
)
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
