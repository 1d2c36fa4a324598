"""The programs of nodes with their own kernel: units of systemd, which starts those again that ended.

What belongs here: ending, freezing and starting units. What does not: the other processes of a soak
(``tests.soak.processes``).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from testbed import DevkitError, until
from testbed.uml import UmlNode
from tests.soak.actions import UNITS

_ALL_RUN_S: Final = 180.0
_JOURNAL: Final = "20000"
KEPT: Final = "[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestart=always\nRestartSec=1\n"
"""Settings of a unit that systemd starts again whenever it ends by itself."""


async def keep(machine: UmlNode, names: Iterable[str]) -> None:
    """Let systemd start these units again."""
    await machine.write({f"/etc/systemd/system/{name}.service.d/kept.conf": KEPT for name in names})
    await machine.run_text(["systemctl", "daemon-reload"])


@dataclass
class Units:
    """``exits`` counts the units that ended by themselves, up to the latest check."""

    machines: Mapping[str, UmlNode]
    exits: Counter[str] = field(default_factory=Counter)
    _restarts: Counter[str] = field(default_factory=Counter)
    """Restarts of a unit by systemd that are counted, since it last forgot them."""

    async def end(self, name: str, *, kill: bool) -> None:
        """End a unit, which stays down until ``start``. The containers of containerd stay."""
        await self._count(name)
        if kill:
            await self._signal(name, "KILL")
        await self._systemctl("stop", name)
        # Not counted: systemd may have started it again between the two.
        self._restarts[name] = await self._seen(name)

    async def start(self, name: str) -> None:
        """Start a unit; it may not be ready when this returns."""
        await self._systemctl("start", name, "--no-block")

    async def freeze(self, name: str) -> None:
        """Suspend the main process of a unit."""
        await self._signal(name, "STOP")

    async def resume(self, name: str) -> None:
        """Continue it."""
        await self._signal(name, "CONT")

    async def reboot(self, node: str) -> None:
        """Cut the power of a node, and start it again; return when it is Ready."""
        names = [each for each in UNITS if each.partition(".")[0] == node]
        for name in names:
            await self._count(name)
        await self.machines[node].reboot()
        for name in names:
            self._restarts[name] = 0

    async def all_run(self) -> None:
        """Wait until every unit runs, and has been started by systemd."""

        async def ready() -> bool:
            return all([await self._show(name, "ActiveState") == "active" for name in UNITS])

        await until(ready, f"{', '.join(UNITS)} to run", _ALL_RUN_S, 0.5)
        for name in UNITS:
            await self._count(name)

    async def save_journals(self, folder: Path) -> None:
        """Write what the units have logged since the last boot, beside the logs of other processes."""
        for name in UNITS:
            node, _, unit = name.partition(".")
            with suppress(DevkitError):
                text = await self.machines[node].unit(unit).journal(_JOURNAL)
                (folder / "logs" / f"{name}.log").write_text(text)

    async def _count(self, name: str) -> None:
        """Add the restarts of a unit by systemd, which may forget them when the unit is started."""
        known, restarts = self._restarts[name], await self._seen(name)
        self.exits[name] += restarts - known if restarts >= known else restarts
        self._restarts[name] = restarts

    async def _seen(self, name: str) -> int:
        return int(await self._show(name, "NRestarts"))

    async def _signal(self, name: str, signal: str) -> None:
        """Send a signal to the main process of a unit; no effect if it has none at this moment."""
        try:
            await self._systemctl("kill", name, "--kill-whom=main", f"--signal={signal}")
        except DevkitError:
            if await self._show(name, "MainPID") != "0":
                raise

    async def _show(self, name: str, what: str) -> str:
        return (await self._systemctl("show", name, f"--property={what}", "--value")).strip()

    async def _systemctl(self, verb: str, name: str, *flags: str) -> str:
        node, _, unit = name.partition(".")
        return await self.machines[node].run_text(["systemctl", verb, *flags, unit])
