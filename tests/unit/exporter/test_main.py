from pathlib import Path

import pytest
from click.testing import CliRunner

from gpushare.errors import ConfigError
from gpushare.exporter.main import check, command
from gpushare.exporter.settings import ExporterSettings
from tests.support.builders.settings import parsed


def settings(*arguments: str, node: str | None = "node-a") -> ExporterSettings:
    named = [f"--node-name={node}"] if node else []
    found = parsed(command, ExporterSettings, *named, *arguments)
    check(found)
    return found


@pytest.fixture(autouse=True)
def without_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NODE_NAME", "KUBECONFIG", "LOG_LEVEL", "OPS_PORT"):
        monkeypatch.delenv(name, raising=False)


def test_the_node_name_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "node-b")
    assert settings(node=None).node_name == "node-b"


def test_the_error_for_a_missing_node_name_has_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"NODE_NAME is not set: set it from spec\.nodeName"):
        settings(node=None)


@pytest.mark.parametrize(
    "flags",
    [
        ["--stale-seconds=25"],
        ["--interval-seconds=60"],
        ["--deadline-seconds=30"],
    ],
)
def test_durations_that_would_interrupt_series_are_refused(flags: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"--stale-seconds=.* must exceed --interval-seconds"):
        settings(*flags)


def test_a_missing_kubeconfig_ends_the_program_with_2_and_one_line(tmp_path: Path) -> None:
    ended = CliRunner().invoke(command, ["--node-name=n", f"--kubeconfig={tmp_path / 'none'}"])
    assert (ended.exit_code, len(ended.stderr.splitlines())) == (2, 1)
    assert ended.stderr.startswith(f"gpushare exporter: kubeconfig {tmp_path / 'none'}: no such file")
