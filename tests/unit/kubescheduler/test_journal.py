import pytest

from gpushare.errors import ConfigError
from gpushare.kubescheduler.journal import Files, Journal, is_unproven, journal_text, parse_journal

JOURNAL = Journal(Files("old", "/etc/config.json", "{}"), "new", frozenset({"7@300"}))


def test_stored_values_are_read_back() -> None:
    assert parse_journal(journal_text(JOURNAL), "j") == JOURNAL


@pytest.mark.parametrize("text", ["", "[", "[]", "7", '{"manifest": "a", "config_file": "", "config": ""}'])
def test_an_invalid_journal_is_reported_with_its_path(text: str) -> None:
    with pytest.raises(ConfigError, match="/backup/j is not the journal of an interrupted edit"):
        parse_journal(text, "/backup/j")


@pytest.mark.parametrize("manifest", ["old", "new"])
def test_an_edit_is_unproven_while_its_old_or_new_manifest_is_there(manifest: str) -> None:
    assert is_unproven(JOURNAL, manifest)


def test_a_manifest_replaced_after_the_edit_is_unrelated_to_it() -> None:
    assert not is_unproven(JOURNAL, "other")
