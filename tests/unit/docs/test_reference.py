"""The reference pages are those that the code writes, and explain every name that users meet."""

from typing import get_args

import pytest

from docs import generate, names
from gpushare import contract
from gpushare.__main__ import COMMANDS
from gpushare.monitoring import catalogue

MET_BY_USERS = ("RESOURCE_", "LABEL_", "LABELS_", "ANN_", "ENV_", "EVENT_")


@pytest.mark.parametrize("page", generate.PAGES)
def test_a_generated_page_is_current(page: str) -> None:
    """`make reference` writes the pages."""
    assert (generate.REFERENCE / page).read_text() == generate.PAGES[page]()


def test_every_name_that_users_meet_is_explained_once() -> None:
    met = [name for name in vars(contract) if name.startswith(MET_BY_USERS)]
    assert sorted(row.constant for row in names.rows()) == sorted(met)


def test_every_cell_of_the_names_is_filled() -> None:
    empty = {row.constant for row in names.rows() if not all(row)}
    assert empty == {"ANN_SEAL", "ENV_MPS_LOGS"}


def test_every_other_constant_is_on_the_page_of_other_names() -> None:
    page = generate.other_names()
    others = {name for name in vars(contract) if name.isupper()} - names.explained()
    assert all(f"({name})" in page for name in others)


def test_every_metric_is_listed_under_its_daemon() -> None:
    listed = [metric for _, group in generate.METRICS.values() for metric in group]
    assert listed == list(catalogue.ALL)
    assert {metric.kind for metric in listed} <= set(get_args(catalogue.Kind))


def test_every_command_has_a_page_of_its_flags() -> None:
    commands = set(COMMANDS)
    text = "".join(generate.PAGES[page]() for page in ("gpushare.md", "kubectl-gpushare.md"))
    missing = {each for each in commands if f"gpushare {each}\n" not in text}
    assert missing == set(generate.DAEMONS)
    assert all(f"{daemon}-flags.md" in generate.PAGES for daemon in generate.DAEMONS)
