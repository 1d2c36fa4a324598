"""The units of a node with its own kernel: what is asked of systemd, and counting its restarts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from testbed import DevkitError
from testbed.uml import UmlNode, Unit
from tests.soak.actions import OWN_KERNEL, UNITS
from tests.soak.units import Units

(NODE,) = OWN_KERNEL
AGENT = f"{NODE}.device-plugin"


@dataclass
class FakeMachine:
    """A FAKE node: it answers ``systemctl show`` from ``shown``, and notes everything else."""

    shown: dict[str, str] = field(
        default_factory=lambda: {"NRestarts": "0", "MainPID": "7", "ActiveState": "active"}
    )
    asked: list[str] = field(default_factory=list)
    refused: str = "none"
    restarts_when_killed: bool = False

    async def run_text(self, argv: Sequence[str], *_: Any) -> str:
        if argv[1] == "show":
            (name,) = (each.partition("=")[2] for each in argv if each.startswith("--property="))
            return f"{self.shown[name]}\n"
        self.asked.append(" ".join(argv[1:]))
        if argv[1] == "kill" and self.restarts_when_killed:
            self.shown["NRestarts"] = "1"
        if argv[1] == self.refused:
            raise DevkitError("refused")
        return ""

    def unit(self, name: str) -> Unit:
        return Unit(cast("UmlNode", self), name)

    async def reboot(self) -> None:
        self.shown["NRestarts"] = "0"


def units_of(machine: FakeMachine) -> Units:
    return Units({NODE: cast("UmlNode", machine)})


async def test_a_killed_unit_stays_down_and_its_other_processes_live() -> None:
    machine = FakeMachine()
    units = units_of(machine)
    await units.end(AGENT, kill=True)
    await units.start(AGENT)
    assert machine.asked == [
        "kill --kill-whom=main --signal=KILL device-plugin",
        "stop device-plugin",
        "start --no-block device-plugin",
    ]


async def test_a_unit_is_suspended_and_continued() -> None:
    machine = FakeMachine()
    units = units_of(machine)
    await units.freeze(AGENT)
    await units.resume(AGENT)
    assert [each.split()[2] for each in machine.asked] == ["--signal=STOP", "--signal=CONT"]


async def test_a_signal_is_an_error_only_while_the_unit_has_a_process() -> None:
    machine = FakeMachine(refused="kill")
    with pytest.raises(DevkitError):
        await units_of(machine).freeze(AGENT)
    machine.shown["MainPID"] = "0"
    await units_of(machine).freeze(AGENT)


async def test_restarts_are_counted_once_also_after_systemd_forgot_them() -> None:
    machine = FakeMachine()
    units = units_of(machine)
    for restarts in ("1", "1", "3", "1"):
        machine.shown["NRestarts"] = restarts
        await units.all_run()
    assert units.exits == dict.fromkeys(UNITS, 4)


async def test_a_start_by_systemd_after_a_kill_is_not_counted() -> None:
    machine = FakeMachine(restarts_when_killed=True)
    units = units_of(machine)
    await units.end(AGENT, kill=True)
    await units.all_run()
    assert units.exits[AGENT] == 0


async def test_the_journals_of_a_node_that_answers_are_saved(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    await units_of(FakeMachine()).save_journals(tmp_path)
    assert {each.stem for each in (tmp_path / "logs").iterdir()} == {*UNITS}


async def test_restarts_before_and_after_a_reboot_are_counted() -> None:
    machine = FakeMachine()
    machine.shown["NRestarts"] = "2"
    units = units_of(machine)
    await units.reboot(NODE)
    machine.shown["NRestarts"] = "2"
    await units.all_run()
    assert units.exits == dict.fromkeys(UNITS, 4)
