"""``python -m components.ready``: the doctor in the cluster of a stack. WITH A FAKE of the CLI of Pulumi."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.ready import Access, access_of
from tests.support.builders.stacks import ROOT

CONTENT = "apiVersion: v1\nkind: Config\n"
# The form of `pulumi config --json`: pulumi/pulumi v3.259.0, pkg/cmd/pulumi/config, configValueJSON.
CONFIG = {
    "gpushare:context": {"value": "west", "secret": False},
    "gpushare:extender": {"value": '{"replicas":3}', "objectValue": {"replicas": 3}, "secret": False},
    "gpushare:kubeconfig": {"value": CONTENT, "secret": True},
}


def test_the_access_of_a_stack_is_in_its_configuration() -> None:
    assert access_of(json.dumps(CONFIG)) == Access(CONTENT, "west")
    assert access_of("{}") == Access("", "")


def ready(folder: Path, pulumi: str, *flags: str) -> subprocess.CompletedProcess[str]:
    program = folder / "pulumi"
    program.write_text(f"#!/bin/sh\n{pulumi}\n")
    program.chmod(0o755)
    argv = [sys.executable, "-m", "components.ready", "--stack", "west", *flags]
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "KUBECONFIG": "/nonexistent"}
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT, env=env)  # noqa: S603


@pytest.fixture
def printed(tmp_path: Path) -> str:
    """A command that prints a configuration whose kubeconfig has no such context."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return f"cat {tmp_path}/config.json"


def test_the_doctor_uses_the_kubeconfig_and_the_context_of_the_stack(tmp_path: Path, printed: str) -> None:
    done = ready(tmp_path, printed, "--max-unready", "10%")
    assert done.returncode != 0
    assert "west" in done.stderr
    assert "/nonexistent" not in done.stderr


def test_a_stack_that_the_engine_does_not_know_ends_with_its_error(tmp_path: Path) -> None:
    done = ready(tmp_path, "echo \"error: no stack named 'west' found\" >&2; exit 255")
    assert (done.returncode, done.stderr) == (255, "error: no stack named 'west' found\n")


def test_without_the_cli_of_pulumi_one_line_says_so(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "components.ready", "--stack", "west"]
    env = {"PATH": str(tmp_path)}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT, env=env)  # noqa: S603
    assert done.returncode == 1
    assert done.stderr == "ready: pulumi is not on the PATH: install the CLI of Pulumi\n"
