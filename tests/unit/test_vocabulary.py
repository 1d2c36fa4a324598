"""The vocabulary check finds banned phrases and prints the better wording."""

import tomllib
from pathlib import Path

import pytest

from tools import vocabulary

TABLE = {"household": "node state", "is told": "is configured with", "mend(s|ed|ing)?": "fix"}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vocabulary.toml"
    path.write_text("""
[banned]
"household" = "node state"
""")

    monkeypatch.setattr(vocabulary, "TABLE", path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The household of a node.", [(1, "household", "node state")]),
        ("One.\nThe container is\n# told its share", [(2, "is # told", "is configured with")]),
        ("Household, mended.", [(1, "household", "node state"), (1, "mended", "fix")]),
        ("recommend amends, households_of, this told", []),
    ],
)
def test_a_phrase_is_found_as_whole_words_in_any_case_and_across_lines(
    text: str, found: list[tuple[int, str, str]]
) -> None:
    assert sorted(vocabulary.find(text, vocabulary.phrases(TABLE))) == found


@pytest.mark.usefixtures("table")
def test_a_banned_phrase_fails_with_file_line_and_better_wording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "module.py"
    path.write_text('"""One line.\n\nThe household of a node.\n"""\n')
    assert vocabulary.main([str(path)]) == 1
    assert f'{path}:3: "household" → node state' in capsys.readouterr().out


def test_the_table_compiles_and_no_better_wording_has_a_banned_phrase() -> None:
    table = tomllib.loads(vocabulary.TABLE.read_text())
    banned = vocabulary.phrases(table["banned"])
    wordings = "\n".join(table["banned"].values())
    assert list(vocabulary.find(wordings, banned)) == []


def test_the_checked_files_are_text_files_of_the_project() -> None:
    names = {str(path.relative_to(vocabulary.ROOT)) for path in vocabulary.checked_files()}
    assert {"README.md", "gpushare/errors.py", "ansible/roles/node_labels/tasks/main.yml"} <= names
    assert not {name for name in names if name.startswith(("tests/contract/", "components/monitoring/"))}
    assert "uv.lock" not in names
