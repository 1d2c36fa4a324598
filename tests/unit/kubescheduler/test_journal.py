import json

import pytest

from gpushare.errors import ConfigError
from gpushare.kubescheduler.journal import Files, Journal, is_unproven, journal_text, parse_journal

JOURNAL = Journal(Files("old", "/etc/config.json", "{}"), "new", frozenset({"7@300"}))
OF_THE_ROLE = json.dumps({"manifest": "old", "config_file": "", "config": ""})
"""What the role scheduler_extender writes."""


def test_stored_values_are_read_back() -> None:
    assert parse_journal(journal_text(JOURNAL), "j") == JOURNAL


def test_the_roles_journal_is_read() -> None:
    assert parse_journal(OF_THE_ROLE, "j") == Journal(Files("old"))


def test_the_role_finds_its_fields_in_ours() -> None:
    stored = json.loads(journal_text(JOURNAL))
    assert {key: stored[key] for key in ("manifest", "config_file", "config")} == JOURNAL.before._asdict()


@pytest.mark.parametrize("text", ["", "[", "[]", "7", '{"manifest": "a"}'])
def test_an_invalid_journal_is_reported_with_its_path(text: str) -> None:
    with pytest.raises(ConfigError, match="/backup/j is not the journal of an interrupted edit"):
        parse_journal(text, "/backup/j")


@pytest.mark.parametrize("manifest", ["old", "new"])
def test_an_edit_is_unproven_while_its_old_or_new_manifest_is_there(manifest: str) -> None:
    assert is_unproven(JOURNAL, manifest, is_installed=manifest == "new")


def test_a_manifest_replaced_after_the_edit_is_unrelated_to_it() -> None:
    assert not is_unproven(JOURNAL, "other", is_installed=True)
    assert not is_unproven(JOURNAL, "other", is_installed=False)


def test_after_an_edit_by_the_role_any_manifest_of_ours_is_unproven() -> None:
    journal = parse_journal(OF_THE_ROLE, "j")
    assert is_unproven(journal, "new", is_installed=True)
    assert not is_unproven(journal, "new", is_installed=False)
