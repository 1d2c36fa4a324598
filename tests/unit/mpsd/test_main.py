from pathlib import Path

import pytest
from click.testing import CliRunner

from gpushare.mpsd.main import command, settings_of
from gpushare.mpsd.settings import MpsSettings


def settings(*args: str) -> MpsSettings:
    return settings_of(command.make_context("mps", list(args)).params)


def test_the_defaults_are_those_of_a_node() -> None:
    assert settings() == MpsSettings(
        Path("/run/gpushare-mps"),
        Path("/dev/shm"),  # noqa: S108 - as its manifest has it
        5.0,
        "::",
        12351,
        "info",
    )


def test_every_setting_has_a_flag() -> None:
    found = settings(
        "--state=/s", "--shm=/m", "--interval-seconds=1", "--ops-host=h", "--ops-port=1", "--log-level=debug"
    )
    assert found == MpsSettings(Path("/s"), Path("/m"), 1.0, "h", 1, "debug")


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
