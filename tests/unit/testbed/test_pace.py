"""Estimates of build times learn from the builds of this machine."""

from pathlib import Path

import pytest

from testbed.programs.binaries import TOOLS
from testbed.programs.pace import Pace, progress

ETCD, KUBECTL = TOOLS["etcd"], TOOLS["kubectl"]


def test_before_any_build_the_estimate_is_that_of_the_table(tmp_path: Path) -> None:
    pace = Pace(tmp_path / "seconds.json")
    assert pace.estimate([ETCD, KUBECTL]) == ETCD.seconds + KUBECTL.seconds
    assert pace.basis == "on 2 cores with an empty Go cache"


def test_a_machine_that_took_twice_as_long_will_take_twice_as_long(tmp_path: Path) -> None:
    Pace(tmp_path / "seconds.json").record(ETCD, 2.0 * ETCD.seconds)
    pace = Pace(tmp_path / "seconds.json")
    assert pace.estimate([KUBECTL]) == 2 * KUBECTL.seconds
    assert pace.basis == "at the pace of this machine"


@pytest.mark.parametrize("text", ["", "[]", '{"etcd": 1}', '{"etcd": ["a", "b"]}'])
def test_a_damaged_record_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "seconds.json").write_text(text)
    assert Pace(tmp_path / "seconds.json").estimate([ETCD]) == ETCD.seconds


def test_a_build_that_takes_longer_says_so() -> None:
    assert progress(20, 160) == "20 s of about 160 s"
    assert progress(220, 160) == "220 s, longer than the expected 160 s"
