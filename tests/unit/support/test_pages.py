"""Parsing of pages, and the comparison of outputs with them."""

import pytest

from tests.support.pages import Command, Written, steps, unmet

PAGE = """\
# Title

## One

```console
$ first --flag
$ second
out 1
out 2
```

Text.

```yaml
# folder/file.yml
a: 1
```

## Two

- In a list:

  ```yaml
  b: 2
  ```
"""


def test_commands_have_their_output_and_files_their_path_in_the_order_of_the_page() -> None:
    assert steps(PAGE) == [
        Command("One", "first --flag"),
        Command("One", "second", ("out 1", "out 2")),
        Written("One", "folder/file.yml", "# folder/file.yml\na: 1\n"),
        Written("Two", "", "b: 2\n"),
    ]


def test_output_without_a_command_is_an_error() -> None:
    with pytest.raises(ValueError, match="One: output without a command: out"):
        steps("## One\n\n```console\nout\n$ late\n```\n")


@pytest.mark.parametrize(
    ("expected", "output"),
    [
        ([], "anything"),
        (["pod/a created"], "pod/a created\n"),
        (["NAME  GPU0", "n     4/14"], "NAME   GPU0 \nn      4/14\n\n"),
        (["a …", "…", "z"], "a b c\nmore\nmore\nz\n"),
        (["…", "(UUID: GPU-…)", "…"], "x\n(UUID: GPU-1)\ny\n"),
        (["cp-1 : … failed=0 …"], "\x1b[32mcp-1\x1b[0m : ok=1 failed=0\n"),
    ],
)
def test_an_output_that_has_every_expected_line_is_met(expected: list[str], output: str) -> None:
    assert not unmet(expected, output)


@pytest.mark.parametrize(
    ("expected", "output", "first"),
    [
        (["a"], "", "a"),
        (["a", "b"], "a\n", "b"),
        (["…", "a", "…", "b"], "b\na\n", "b"),
        (["b"], "a\nb\n", "b"),
        (["a"], "a\nb\n", "nothing more, but it has: b"),
        (["cp-1 : … failed=0 …"], "cp-1 : ok=1 failed=1\n", "cp-1 :…failed=0…"),
    ],
)
def test_the_first_expected_line_that_is_missing_is_named(
    expected: list[str], output: str, first: str
) -> None:
    assert unmet(expected, output) == first
