"""The vocabulary check finds banned phrases and prints the better wording."""

from pathlib import Path

import pytest

from tools import vocabulary

TABLE = {"household": "node state", "is told": "is configured with", "mend(s|ed|ing)?": "fix"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "vocabulary.toml"
    path.write_text('[banned]\n"household" = "node state"')
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The household of a node.", [(1, "household", "node state")]),
        ("One.\nThe container is\n# told its share", [(2, "is told", "is configured with")]),
        ("Household, mended.", [(1, "household", "node state"), (1, "mended", "fix")]),
        ("recommend amends, households_of, this told", []),
    ],
)
def test_a_phrase_is_found_as_whole_words_in_any_case_and_across_lines(
    text: str, found: list[tuple[int, str, str]]
) -> None:
    assert sorted(vocabulary.find(text, vocabulary.phrases(TABLE))) == found


def test_a_banned_phrase_fails_with_file_line_and_better_wording(
    tmp_path: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""One line.\n\nThe household of a node.\n"""\n')
    assert vocabulary.main([str(path)], table) == 1
    assert capsys.readouterr().out == (
        f'{path}:3: "household" → node state\n'
        f"vocabulary: 1 found; {table} lists phrases to avoid and what to write instead\n"
    )


@pytest.mark.parametrize(
    ("content", "problem"), [(None, "No such file or directory"), (b"\xff", "can't decode byte 0xff")]
)
def test_a_file_that_is_not_text_is_named(
    tmp_path: Path, table: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, problem: str
) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    assert vocabulary.main([str(path)], table) == 2
    output = capsys.readouterr().out
    assert output.startswith(f"vocabulary: {path}: ")
    assert problem in output


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there is no table [banned]"),
        ("[banned]\nhouse hold = 1", "at line 2"),
        ('[banned]\n"a(" = "b"', '"a(" is not a regular expression'),
        ('[banned]\n"\\\\Wa" = "b"', "lower case"),
    ],
)
def test_an_error_in_the_table_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    path = tmp_path / "vocabulary.toml"
    path.write_text(text)
    assert vocabulary.main([], path) == 2
    assert problem in capsys.readouterr().out


def test_no_better_wording_has_a_banned_phrase() -> None:
    banned = vocabulary.read_table(vocabulary.TABLE)
    assert list(vocabulary.find("\n".join(each.better for each in banned), banned)) == []


def test_the_checked_files_are_text_files_of_the_project() -> None:
    names = {str(path.relative_to(vocabulary.ROOT)) for path in vocabulary.checked_files()}
    assert {
        "README.md",
        "Containerfile",
        "gpushare/errors.py",
        "ansible/roles/node_labels/tasks/main.yml",
    } <= names
    assert not {name for name in names if name.startswith(("tests/contract/", "components/monitoring/"))}
    assert "uv.lock" not in names
