import asyncio
from pathlib import Path

import pytest

from gpushare.contract import AGENT_RECORD, DEVICE_PLUGIN_FOLDER
from gpushare.deviceplugin.core.allocations import Allocation, Allocations, Enforcement
from gpushare.deviceplugin.node.record import AllocationRecord
from gpushare.deviceplugin.settings import AgentSettings
from gpushare.errors import ConfigError
from gpushare.isolation.versions import (
    UnknownUsage,
    current_version,
    installed_versions,
    retained_versions,
    versions_in_use,
)

OLD, NEW = "00000000000000aa", "00000000000000bb"


def allocation(container: str, enforcement: Enforcement | None) -> Allocation:
    return Allocation("uid", container, "default/pod", (("GPU-1", 4),), "id", enforcement=enforcement)


def test_the_record_is_read_as_the_agent_writes_it(tmp_path: Path) -> None:
    allocations = [allocation("a", Enforcement("00000000000000cc", OLD, "limit")), allocation("b", None)]
    node = Allocations("node-a", by_container={each.key: each for each in allocations})
    asyncio.run(AllocationRecord(tmp_path, "GiB").write(lambda: node))
    assert versions_in_use(tmp_path / Path(AGENT_RECORD).name) == frozenset({OLD})


def test_the_record_is_read_from_the_path_of_the_agent() -> None:
    assert AgentSettings().state == (Path(DEVICE_PLUGIN_FOLDER) / AGENT_RECORD).parent


def test_an_agent_without_isolation_limits_no_container(tmp_path: Path) -> None:
    record = tmp_path / "allocations.json"
    record.write_text('{"version": 1, "unit": "GiB", "allocations": [{"uid": "a", "container": "b"}]}')
    assert versions_in_use(record) == frozenset()


def test_without_a_record_the_used_versions_are_unknown(tmp_path: Path) -> None:
    record = tmp_path / "allocations.json"
    assert versions_in_use(record) == UnknownUsage(f"{record} does not exist")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b"[]", b'{"allocations": 1}', b'{"allocations": [{"enforcement": 1}]}']
)
def test_an_invalid_record_returns_nothing(tmp_path: Path, content: bytes) -> None:
    record = tmp_path / "allocations.json"
    record.write_bytes(content)
    answer = versions_in_use(record)
    assert isinstance(answer, UnknownUsage)
    assert str(record) in answer.reason


def test_an_unreadable_record_returns_nothing(tmp_path: Path) -> None:
    assert versions_in_use(tmp_path) == UnknownUsage(f"cannot read {tmp_path}: Is a directory")


def test_only_names_of_versions_are_versions(tmp_path: Path) -> None:
    for name in (OLD, NEW, "current", ".0123456789abcdef.draft", "README"):
        (tmp_path / name).mkdir()
    assert installed_versions(tmp_path) == (OLD, NEW)
    assert installed_versions(tmp_path / "nowhere") == ()


def test_the_error_for_a_path_that_is_no_directory_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot read .*/file: Not a directory"):
        installed_versions(tmp_path / "file")


def test_a_link_to_no_version_is_none(tmp_path: Path) -> None:
    assert current_version(tmp_path) is None
    (tmp_path / "current").symlink_to("/etc")
    assert current_version(tmp_path) is None


def test_an_unused_version_that_is_not_current_is_not_retained() -> None:
    assert retained_versions((OLD, NEW), NEW, frozenset()) == {NEW: "new containers get it"}
    assert retained_versions((OLD, NEW), None, frozenset({OLD})) == {OLD: "in use by containers"}
    assert retained_versions((OLD, NEW), None, UnknownUsage("x")).keys() == {OLD, NEW}
