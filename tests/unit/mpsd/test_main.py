from pathlib import Path

import pytest
from click.testing import CliRunner

from gpushare.mpsd.main import command
from gpushare.mpsd.settings import MpsSettings
from gpushare.runtime.settings import LogLevel
from tests.support.builders.settings import parsed


def settings(*args: str) -> MpsSettings:
    return parsed(command, MpsSettings, *args)


def test_the_defaults_are_those_of_a_node() -> None:
    assert settings() == MpsSettings(
        state=Path("/run/gpushare-mps"),
        shm=Path("/dev/shm"),  # noqa: S108 - as its manifest has it
        interval_seconds=5.0,
        ops_host="::",
        ops_port=12351,
        log_level=LogLevel.INFO,
    )


def test_an_interval_of_zero_is_refused() -> None:
    result = CliRunner().invoke(command, ["--interval-seconds=0"])
    assert result.exit_code == 2
    assert "--interval-seconds" in result.output


@pytest.mark.parametrize("flag", ["--state", "--shm"])
def test_a_file_in_place_of_a_directory_is_refused_by_name(flag: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = CliRunner().invoke(command, [flag, str(tmp_path / "file")])
    assert done.exit_code == 2
    assert f"'{flag}': Directory '{tmp_path}/file' is a file" in done.output
