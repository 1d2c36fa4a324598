"""The examples in the help of all commands: every command has some, and each is parsed by its command."""

import shlex

import click
import pytest

from gpushare.__main__ import command as program
from gpushare.cli.main import plugin
from release.man_pages import PLUGIN, PROGRAM, tree

COMMANDS = dict(tree(PROGRAM, program)) | dict(tree(PLUGIN, plugin))
WITHOUT = {PROGRAM, PLUGIN, f"{PROGRAM} version", f"{PLUGIN} version"}
"""Groups that list all commands, and a command without flags."""
START = "\b\nExamples:\n  "
SAME = {"kubectl inspect gpushare": f"{PLUGIN} inspect"}
"""A program with the name of another one."""


def examples(command: click.Command) -> list[str]:
    return (command.epilog or "").removeprefix(START).split("\n  ")


def words(line: str) -> list[str]:
    """The words of our command in a pipeline, without the file of its output."""
    for part in line.partition(" > ")[0].split(" | "):
        named = part.strip()
        for other, own in SAME.items():
            named = named.replace(other, own)
        if named.startswith((PROGRAM, PLUGIN)):
            return shlex.split(named.removeprefix("kubectl "))[1:]
    raise AssertionError(line)


def parse(command: click.Command, arguments: list[str], parent: click.Context | None = None) -> None:
    """Raises UsageError for a flag or a value that the command does not take."""
    with command.make_context(command.name, list(arguments), parent) as context:
        if isinstance(command, click.Group):
            # A group keeps the name of its command apart from the rest.
            name, below, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            assert name
            assert below
            parse(below, rest, context)


@pytest.mark.parametrize("line", sorted(COMMANDS.keys() - WITHOUT))
def test_every_command_has_one_to_four_examples_of_itself(line: str) -> None:
    command = COMMANDS[line]
    assert (command.epilog or "").startswith(START)
    shown = examples(command)
    assert 1 <= len(shown) <= 4
    own = line.removeprefix("kubectl ").split()[1:]
    assert all(words(each)[: len(own)] == own for each in shown)


@pytest.mark.parametrize(
    "line", sorted({each for found in COMMANDS.values() for each in examples(found) if each})
)
def test_an_example_has_only_flags_and_values_that_its_command_takes(line: str) -> None:
    parse(program, words(line))
