"""Modules that a daemon with a service account must not import, such as a parser of YAML."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("daemon", ["gpushare.deviceplugin", "gpushare.exporter", "gpushare.extender"])
def test_a_daemon_starts_without_heavy_modules(daemon: str) -> None:
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
