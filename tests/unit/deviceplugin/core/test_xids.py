"""The table of XID errors after which a GPU must be reset, and the setting that takes some away."""

import pytest

from gpushare.deviceplugin.core.xids import RESET_XIDS, parse_xids
from gpushare.errors import ConfigError

CATALOGUE = {
    "RESET_GPU": {46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158},
    "WORKFLOW_XID_48": {48},
    "WORKFLOW_NVLINK_ERR": {74},
    "RESTART_BM": {79},
    "RESTART_VM": {151},
    "CHECK_MECHANICALS": {54},
    "RESTART_APP": {8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 86, 94},
    "IGNORE": {14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 157, 160, 161},
    "XID_154": {154},
    "WORKFLOW_XID_45": {45},
}
"""Immediate actions of NVIDIA's catalogue, November 2026."""
IN_USE = {"RESTART_APP", "IGNORE", "XID_154", "WORKFLOW_XID_45"}


def test_the_table_is_that_of_nvidias_catalogue() -> None:
    reset = set().union(*(xids for action, xids in CATALOGUE.items() if action not in IN_USE))
    assert set(RESET_XIDS) == reset


@pytest.mark.parametrize(("text", "xids"), [("31,43,45", {31, 43, 45}), (" 31 , 43,", {31, 43}), ("", set())])
def test_xids_are_written_as_a_list(text: str, xids: set[int]) -> None:
    assert parse_xids(text) == xids


@pytest.mark.parametrize("text", ["31,x", "-1", "31;43", "0x1f"])
def test_an_xid_that_is_not_a_number_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a number; write them as 31,43,45"):
        parse_xids(text)
