"""Groups of commands that are imported on use."""

from click.testing import CliRunner

from gpushare.cli.main import plugin


def test_an_unknown_command_names_the_most_similar_one() -> None:
    result = CliRunner().invoke(plugin, ["doctr"])
    assert result.exit_code == 2
    assert "No such command 'doctr'. Did you mean 'doctor'?" in result.output


def test_an_unknown_command_like_no_other_gets_no_suggestion() -> None:
    result = CliRunner().invoke(plugin, ["xyz"])
    assert result.exit_code == 2
    assert "No such command 'xyz'.\n" in result.output
