"""The reference pages are those that the code writes, and explain every name that users meet."""

from typing import get_args

import pytest

from docs import generate, metrics_page, names
from gpushare import contract
from gpushare.__main__ import COMMANDS
from gpushare.monitoring import catalogue

MET_BY_USERS = ("RESOURCE_", "LABEL_", "LABELS_", "ANN_", "ENV_", "EVENT_", "STARTUP_")


@pytest.mark.parametrize("page", generate.PAGES)
def test_a_generated_page_is_current(page: str) -> None:
    """`make generate` writes the pages."""
    assert (generate.REFERENCE / page).read_text() == generate.PAGES[page]()


def test_every_name_that_users_meet_is_explained_once() -> None:
    met = [name for name in vars(contract) if name.startswith(MET_BY_USERS)]
    assert sorted(row.constant for row in names.rows()) == sorted(met)


def test_every_cell_of_the_names_is_filled() -> None:
    empty = {row.constant for row in names.rows() if not all(row)}
    assert empty == {"ANN_SEAL", "ENV_MPS_LOGS"}


def test_every_metric_is_listed_under_its_daemon() -> None:
    listed = [metric for _, group in metrics_page.METRICS.values() for metric in group]
    assert listed == list(catalogue.ALL)
    assert {metric.kind for metric in listed} <= set(get_args(catalogue.Kind))


def test_every_label_of_a_metric_has_an_example() -> None:
    used = {label for metric in catalogue.ALL for label in metric.labels}
    assert used == metrics_page.LABELS.keys()


@pytest.mark.parametrize(
    ("metric", "unit", "example"),
    [
        (catalogue.CARD_UNITS, "units", 'gpushare_card_units{node="gpu-1",card="0"} 14'),
        (catalogue.EXTENDER_LEADS, "0 or 1", "gpushare_extender_leader 1"),
        (
            catalogue.EXTENDER_LATENCY,
            "seconds",
            'gpushare_extender_request_duration_seconds_bucket{verb="filter",le="0.005"} 12',
        ),
        (
            catalogue.EXTENDER_FORWARDED,
            "number",
            'gpushare_extender_forwarded_requests_total{verb="filter",result="ok"} 3',
        ),
        (catalogue.CARDS_OVERCOMMITTED, "number", "gpushare_cards_overcommitted 0"),
    ],
    ids=str,
)
def test_a_metric_has_its_unit_and_a_series(metric: catalogue.Metric, unit: str, example: str) -> None:
    assert (metrics_page.unit(metric), metrics_page.example(metric)) == (unit, example)


def test_examples_of_single_metrics_name_a_metric_with_that_label() -> None:
    known = {(metric.name, label) for metric in catalogue.ALL for label in metric.labels}
    assert metrics_page._OTHERS.keys() <= known


def test_every_command_is_on_a_page_of_commands() -> None:
    commands = set(COMMANDS)
    text = "".join(generate.PAGES[page]() for page in ("gpushare.md", "kubectl-gpushare.md"))
    missing = {each for each in commands if f"gpushare {each}\n" not in text}
    assert missing == set(generate.DAEMONS)
    assert all(f"## gpushare {daemon}\n" in generate.flags() for daemon in generate.DAEMONS)
