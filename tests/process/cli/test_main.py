"""The programs as processes: names, help, exit codes."""

import subprocess
import sys
from pathlib import Path
from typing import IO

import click
import pytest

from gpushare import __version__
from gpushare.errors import ConfigError
from gpushare.runtime.lazy import Lazy, LazyGroup
from gpushare.runtime.program import program_name

PLUGIN = "kubectl_main"
INSPECT = "inspect_main"


def gpushare(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run(["-m", "gpushare", *arguments])


def installed_as(name: str, entry: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.argv[0] = '/usr/bin/{name}'; from gpushare.cli.main import {entry}; {entry}()"
    return run(["-c", code, *arguments])


def run(arguments: list[str], stdout: int | IO[str] = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [sys.executable, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nowhere"},
    )


def test_help_lists_every_command_and_imports_none() -> None:
    code = (
        "import sys, gpushare.__main__ as program\n"
        "try: program.command.main(['--help'], prog_name='gpushare')\n"
        "except SystemExit: pass\n"
        "heavy = {'kubernetes', 'aiohttp', 'msgspec', 'asyncio', 'yaml', 'httptools'} & sys.modules.keys()\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = run(["-c", code])
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("extender", "inspect", "top", "limits", "scheduler-config", "version"):
        assert f"\n  {name} " in done.stdout


def test_explain_and_doctor_need_no_libraries_of_the_daemons() -> None:
    """``immutables`` has no wheels for the newest Python of the plugins."""
    code = (
        "import sys, gpushare.cli.doctor.collect, gpushare.cli.doctor.render, gpushare.cli.explain.render\n"
        "assert not {'immutables', 'httptools', 'grpc', 'prometheus_client'} & sys.modules.keys()"
    )
    done = run(["-c", code])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect"],
        ["top"],
        ["top", "node"],
        ["top", "pod"],
        ["board"],
        ["limits"],
        ["explain"],
        ["doctor"],
        ["scheduler-config"],
        ["version"],
    ],
)
def test_help_of_a_command_does_not_import_the_api_client(arguments: list[str]) -> None:
    code = (
        "import sys, gpushare.__main__ as program\n"
        f"try: program.command.main([*{arguments}, '-h'], prog_name='gpushare')\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert not {'kubernetes', 'aiohttp', 'msgspec'} & sys.modules.keys()"
    )
    done = run(["-c", code])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: gpushare {' '.join(arguments)} ")


@pytest.mark.parametrize(
    ("file", "entry", "called"),
    [
        ("kubectl-gpushare", PLUGIN, "kubectl gpushare"),
        ("kubectl-inspect-gpushare", INSPECT, "kubectl inspect gpushare"),
        ("kubectl-inspect-cgpu", INSPECT, "kubectl inspect cgpu"),
    ],
)
def test_help_of_a_plugin_shows_how_kubectl_calls_it(file: str, entry: str, called: str) -> None:
    done = installed_as(file, entry, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: {called} ")


def test_a_dash_in_a_plugins_name_is_written_as_underscore() -> None:
    assert program_name("/opt/bin/kubectl-gpu_share-top") == "kubectl gpu-share top"
    assert program_name("/opt/bin/gpushare") is None


def test_version() -> None:
    assert gpushare("version").stdout == f"gpushare {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["inspect", "--nonsense"],
        ["inspect", "-o", "xml"],
        ["inspect", "one", "two"],
        ["top", "things"],
        ["scheduler-config"],
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    done = gpushare(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["inspect"], "no kubeconfig given and not in a cluster"),
        (["inspect", "--kubeconfig", "/nowhere/config"], "kubeconfig /nowhere/config: no such file"),
        (["top", "node", "-l", "a b"], "selector 'a b' is not like"),
        (["scheduler-config", "--kubernetes-version", "1.12"], "Kubernetes 1.12 is not supported"),
    ],
)
def test_a_failed_command_ends_with_1_and_one_line(arguments: list[str], text: str) -> None:
    done = gpushare(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {text}")
    assert done.stderr.count("\n") == 1


def test_the_inspect_plugin_writes_errors_as_the_aliyun_tool_does() -> None:
    done = installed_as("kubectl-inspect-gpushare", INSPECT)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Failed due to no kubeconfig given")


def test_the_error_for_a_missing_library_names_its_extra() -> None:
    group = LazyGroup("g", lazy={"x": Lazy("no_such_library:command", "", "extender")}, text="")
    with pytest.raises(ConfigError, match=r"no_such_library is not installed: .* `uv sync --extra extender`"):
        group.get_command(click.Context(group), "x")


def test_a_missing_module_of_the_package_is_not_a_configuration_error() -> None:
    group = LazyGroup("g", lazy={"x": Lazy("gpushare.no_such_module:command", "")}, text="")
    with pytest.raises(ModuleNotFoundError):
        group.get_command(click.Context(group), "x")


@pytest.mark.parametrize(
    ("module", "arguments", "failure"),
    [
        ("gpushare", ["version"], "Error: "),
        ("gpushare", ["scheduler-config", "--kubernetes-version", "1.36"], "Error: "),
        ("components.render", ["--config", "Pulumi.example.yaml"], "render: "),
        ("components.render", ["--help"], "render: "),
        ("release", ["--help"], "images: "),
        ("release.bundle", ["--help"], "release: "),
        ("release.publish", ["--help"], "release: "),
        ("release.supply", ["--help"], "images: "),
        ("release.version", [], "version: "),
        ("testbed", ["--help"], "testbed: "),
        ("testbed", ["bin", "--help"], "testbed: "),
    ],
)
def test_a_full_disk_is_one_line(module: str, arguments: list[str], failure: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = run(["-m", module, *arguments], stdout=full)
    assert (done.returncode, done.stderr) == (1, f"{failure}No space left on device\n")


def test_a_file_that_may_not_grow_is_one_line(tmp_path: Path) -> None:
    """As with a quota, which is another error of the system."""
    code = (
        "import resource, sys; from gpushare.__main__ import main\n"
        "sys.argv[1:] = ['version']; resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4)); main()"
    )
    with (tmp_path / "version").open("w") as short:
        done = run(["-c", code], stdout=short)
    assert (done.returncode, done.stderr) == (1, "Error: File too large\n")
