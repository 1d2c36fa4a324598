"""Modules that a daemon must not import: the official client takes as much memory as all of our code."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("daemon", ["gpushare.deviceplugin", "gpushare.exporter", "gpushare.extender"])
def test_a_daemon_runs_without_the_official_client(daemon: str) -> None:
    code = (
        f"import sys, {daemon}.main, {daemon}.daemon\n"
        "assert 'gpushare.adapters.kube.client' in sys.modules\n"
        "heavy = {'kubernetes', 'pydantic', 'requests', 'yaml'} & sys.modules.keys()\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
