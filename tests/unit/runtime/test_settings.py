"""The options of a command, as they follow from the fields of its settings."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import click
import pytest
from click.testing import CliRunner

from gpushare.runtime.settings import (
    Level,
    LogLevel,
    OpsPort,
    Seconds,
    Setting,
    setting,
    settings_command,
)
from tests.support.builders.settings import parsed


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


Shared = Annotated[str | None, Setting(help="Of many.", env="SHARED")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    name: str = setting(help="Name.")
    pause: Seconds = setting(3.0, help="Pause.")
    count: Annotated[int, click.IntRange(min=1)] | None = setting(None, help="Count.  [default: all]")
    colour: Colour = setting(Colour.RED, help="Colour.")
    way: Literal["up", "down"] = setting("up", help="Way.", env="WAY")
    file: Path = setting(Path("/a"), help="File.")
    peers: tuple[str, ...] = setting((), help="Peer.", flag="peer")
    quiet: bool = setting(default=False, help="Quiet.")
    checks: bool = setting(default=True, help="Checks.")
    go_word: bool = setting(default=True, help="As in Go.", is_go=True)
    secret_way: str = setting("", help="For tests.", is_hidden=True)
    ops_port: OpsPort = 7
    log_level: Level = LogLevel.INFO
    shared: Shared = None


@settings_command(Settings, epilog="")
def command(settings: Settings) -> None:
    click.echo(repr(settings))


def read(*flags: str) -> Settings:
    return parsed(command, Settings, "--name=n", *flags)


def test_without_flags_the_settings_are_the_defaults_of_the_fields() -> None:
    assert read() == Settings(name="n")


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        (["--pause=0.5"], "pause", 0.5),
        (["--count=2"], "count", 2),
        (["--colour=blue"], "colour", Colour.BLUE),
        (["--way", "down"], "way", "down"),
        (["--file=/b"], "file", Path("/b")),
        (["--peer=a", "--peer=b"], "peers", ("a", "b")),
        (["--quiet"], "quiet", True),
        (["--no-checks"], "checks", False),
        (["-go-word=false"], "go_word", False),
        (["--go-word"], "go_word", True),
        (["--secret-way=x"], "secret_way", "x"),
        (["--ops-port=0"], "ops_port", 0),
    ],
)
def test_a_flag_has_the_name_and_the_type_of_its_field(flags: list[str], field: str, value: Any) -> None:
    assert getattr(read(*flags), field) == value


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--pause=0", "0.0 is not in the range x>0"),
        ("--pause=nan", "nan is not in the range"),
        ("--count=0", "0 is not in the range x>=1"),
        ("--colour=green", "'green' is not one of 'red', 'blue'"),
        ("--way=left", "'left' is not one of 'up', 'down'"),
        ("--ops-port=-1", "-1 is not in the range 0<=x<=65535"),
    ],
)
def test_an_invalid_value_is_an_error_that_names_the_flag_and_what_is_allowed(flag: str, text: str) -> None:
    result = CliRunner().invoke(command, ["--name=n", flag])
    assert (result.exit_code, flag.partition("=")[0] in result.output) == (2, True)
    assert text in result.output


def test_a_field_without_a_default_is_a_required_flag() -> None:
    result = CliRunner().invoke(command, [])
    assert (result.exit_code, "Missing option '--name'" in result.output) == (2, True)


def test_a_variable_sets_its_field_and_the_flag_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAY", "down")
    monkeypatch.setenv("SHARED", "x")
    assert (read().way, read().shared) == ("down", "x")
    assert read("--way=up").way == "up"


def test_the_help_shows_values_as_they_are_written_and_no_hidden_flag() -> None:
    text = CliRunner().invoke(command, ["--help"]).output
    assert "[default: red]" in text
    assert "Count.  [default: all]" in text
    assert "--secret-way" not in text


def test_a_log_level_is_read_in_any_case() -> None:
    assert read("--log-level=WARN").log_level is LogLevel.WARN
