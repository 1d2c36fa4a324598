"""XID errors on disk: what a restart of the agent reads, and what happens if that fails."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gpushare.contract import FAULT_RECORD
from gpushare.deviceplugin.node.fault_record import FaultRecord
from gpushare.errors import ConfigError

XIDS = {"GPU-a": 95}


def record(folder: Path, start: str = "boot 1") -> FaultRecord:
    """The record of a new agent, after the given start of the driver."""
    return FaultRecord(folder, lambda: start)


def path(folder: Path) -> Path:
    return folder / Path(FAULT_RECORD).name


async def test_recorded_xids_are_read_by_the_next_agent(tmp_path: Path) -> None:
    first = record(tmp_path / "state")
    assert first.read() == {}
    await first.write(XIDS)
    assert record(tmp_path / "state").read() == XIDS


async def test_xids_of_an_earlier_start_of_the_driver_are_forgotten(tmp_path: Path) -> None:
    first = record(tmp_path)
    first.read()
    await first.write(XIDS)
    second = record(tmp_path, "boot 2")
    assert second.read() == {}
    await second.write({})
    assert record(tmp_path).read() == {}


async def test_nothing_is_written_without_a_change(tmp_path: Path) -> None:
    found = record(tmp_path)
    found.read()
    await found.write({})
    assert not path(tmp_path).exists()
    await found.write(XIDS)
    path(tmp_path).unlink()
    await found.write(dict(XIDS))
    assert not path(tmp_path).exists()


async def test_a_start_of_the_driver_is_noticed_once_and_the_record_written_again(tmp_path: Path) -> None:
    starts = ["boot 1"]
    found = FaultRecord(tmp_path, lambda: starts[-1])
    found.read()
    await found.write(XIDS)
    starts.append("boot 1 reloaded")
    assert (found.driver_has_started(), found.driver_has_started()) == (True, False)
    await found.write(XIDS)
    assert record(tmp_path, "boot 1 reloaded").read() == XIDS


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"driver_start": "boot 1"}', b"\xff", b"[" * 100_000]
)
async def test_a_file_that_cannot_be_decoded_is_logged_and_replaced(tmp_path: Path, content: bytes) -> None:
    path(tmp_path).write_bytes(content)
    found = record(tmp_path)
    with capture_logs() as logs:
        assert found.read() == {}
    assert [each["event"] for each in logs] == ["fault_record_unreadable"]
    await found.write({})
    assert record(tmp_path).read() == {}
    assert path(tmp_path).read_bytes() != content


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    path(tmp_path).mkdir()
    with pytest.raises(ConfigError, match=r"cannot read .*faults\.json"):
        record(tmp_path).read()


async def test_a_failed_write_is_logged_once_and_made_up_for(tmp_path: Path) -> None:
    found = record(tmp_path)
    found.read()
    path(tmp_path).mkdir()
    with capture_logs() as logs:
        for _ in range(3):
            await found.write(XIDS)
    assert [(each["event"], each["effect"]) for each in logs] == [
        ("fault_record_not_written", "a restart of the agent opens GPUs that wait for a reset")
    ]
    path(tmp_path).rmdir()
    await found.write(XIDS)
    assert record(tmp_path).read() == XIDS
