"""The vocabulary check finds words to avoid, and prints the term."""

import pytest

from tools import vocabulary


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The household of a node.", [(1, "household", "node state, allocations")]),
        ("One.\nA control\n# groups", [(2, "control # groups", "cgroup")]),
        ("Multi-tenancy, households_of, strayed.", []),
        ("One.\nTenancies", [(2, "Tenancies", "allocation; GPU pod")]),
    ],
)
def test_words_are_found_whole_in_any_case_and_across_lines(
    text: str, found: list[tuple[int, str, str]]
) -> None:
    assert list(vocabulary.find(text)) == found


def test_a_word_to_avoid_fails_with_file_line_and_term(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vocabulary, "_files", lambda: ["tests/repository/test_vocabulary.py"])
    assert vocabulary.main() == 1
    assert (
        f'{__file__[len(str(vocabulary.ROOT)) + 1 :]}:11: "household" → node state' in capsys.readouterr().out
    )
