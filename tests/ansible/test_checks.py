"""The output of the checks of many hosts (table, document, failures), and verdicts on failed hosts."""

import json

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils import verdicts
from ansible_collections.gpushare.nodes.plugins.plugin_utils.checks import (
    Check,
    Level,
    document,
    failures,
    judged,
    not_examined,
    table,
    verdict,
    version,
    worst,
)

VERDICTS = {
    "gpu-1": verdict(
        [Check("system", Level.OK, "debian 12"), Check("cards", Level.WARN, "1 × X", "X is odd")]
    ),
    "cp-1": verdict([Check("system", Level.FAIL, "debian 9", "too old")]),
    "gone": not_examined("unreachable"),
}


def test_one_table_shows_all_hosts_and_then_failures_before_warnings() -> None:
    assert table(VERDICTS).splitlines() == [
        "HOST   STATE  SYSTEM     CARDS",
        "gpu-1  warn   debian 12  1 × X",
        "cp-1   fail   debian 9   -",
        "gone   fail   -          -",
        "fail: cp-1: system: too old",
        "fail: gone: report: unreachable",
        "warn: gpu-1: cards: X is odd",
    ]


def test_a_table_without_hosts_has_only_its_header() -> None:
    assert table({}) == "HOST  STATE"


def test_the_document_is_plain_json_with_every_host() -> None:
    made = json.loads(json.dumps(document(VERDICTS, "preflight")))
    assert (made["format"], made["kind"], made["ok"]) == (1, "preflight", False)
    assert made["counts"] == {"ok": 0, "warn": 1, "fail": 2}
    assert list(made["hosts"]) == ["gpu-1", "cp-1", "gone"]
    assert made["hosts"]["gpu-1"]["checks"][1] == {
        "name": "cards",
        "level": "warn",
        "found": "1 × X",
        "problem": "X is odd",
    }
    assert "cluster" not in made


@pytest.mark.parametrize(("level", "ok"), [(Level.OK, True), (Level.WARN, True), (Level.FAIL, False)])
def test_a_failed_cluster_makes_the_document_not_ok(level: Level, ok: bool) -> None:  # noqa: FBT001 - a case
    cluster = verdict([Check("api", level, "")])
    assert document({}, "validate", cluster)["ok"] is ok


def test_failures_are_the_failed_checks_with_their_fix() -> None:
    assert failures(VERDICTS["cp-1"]) == ["system: too old"]
    assert failures(VERDICTS["gpu-1"]) == []


def test_a_check_of_several_problems_is_as_bad_as_the_worst() -> None:
    found = judged("x", "y", [(Level.WARN, "a"), (Level.FAIL, "b"), (Level.WARN, "c")])
    assert (found.level, found.problem) == (Level.FAIL, "a; b; c")
    assert worst([]) is Level.OK


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("19.03.5~3-0", (19, 3, 5)), ("v1.36.0", (1, 36, 0)), ("580", (580,)), ("", ()), (None, ()), ("x1", ())],
)
def test_a_version_is_its_leading_numbers(text: str | None, numbers: tuple[int, ...]) -> None:
    assert version(text) == numbers


def test_a_host_without_a_report_fails_with_the_message() -> None:
    lost = verdicts.of_preflight({"unreachable": True, "msg": "connect to host x:\n refused"}, {})
    assert failures(lost) == [
        "report: unreachable (connect to host x: refused): check ansible_host, the SSH key and the network"
    ]
    broken = verdicts.of_validation({"msg": "boom", "module_stderr": "no python"}, {}, {}, {})
    assert "(boom no python)" in failures(broken)[0]


def test_hosts_that_failed_earlier_are_added() -> None:
    known = verdicts.with_lost(VERDICTS, ["cp-1", "early"])
    assert known["cp-1"] == VERDICTS["cp-1"]
    assert known["early"]["level"] == "fail"
    assert "early" not in VERDICTS
