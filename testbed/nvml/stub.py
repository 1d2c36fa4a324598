"""A stub NVML that a test changes while programs use it.

What belongs here: the folder and its changes. What does not: the description (``description``, ``rules``)
and the library (``build``, ``native/``).

One process writes; any number of processes may use the library. A change takes effect with the next call
of NVML, except for the list of GPUs, which nvmlInit reads.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpushare.errors import ConfigError
from testbed.nvml import build, render
from testbed.nvml.description import MAX_EVENTS, Description, Failure, GpuProcess, NvmlEvent, NvmlGpu, Pair
from testbed.nvml.eras import ERAS, NEWEST
from testbed.nvml.rules import checked

_RECOVERY_ACTION_CHANGED = 154
_SINCE_RESET = ("recovery_action", "ecc_corrected", "ecc_uncorrected", "remap_pending", "energy_mj")
"""Fields of a card that are 0 after a reset."""


class NvmlStub:
    """The GPUs of one machine, in ``folder``. Every method raises ConfigError for invalid values."""

    def __init__(
        self,
        folder: Path,
        *,
        era: int = NEWEST,
        cards: Sequence[NvmlGpu] = (),
        pairs: Sequence[Pair] = (),
        **fields: Any,
    ) -> None:
        self.folder = folder.absolute()
        self._write(Description(era, self._completed(cards), tuple(pairs), **fields))

    @property
    def description(self) -> Description:
        """The current description."""
        return self._description

    @property
    def library(self) -> Path:
        """The ``libnvidia-ml.so.1`` of the era."""
        return build.library(self._description.era)

    @property
    def state(self) -> Path:
        """The state file that the library reads; each change replaces it."""
        return self.folder / build.STATE

    @property
    def env(self) -> dict[str, str]:
        """Environment variables of a process that uses these GPUs."""
        folders = [str(self.library.parent), os.environ.get("LD_LIBRARY_PATH", "")]
        return {"LD_LIBRARY_PATH": ":".join(filter(None, folders)), "STUB_NVML": str(self.state)}

    @property
    def sysfs(self) -> Path:
        """A replacement for ``/sys``.

        It has ``bus/pci/devices/<id>/numa_node`` and ``bus/pci/drivers/nvidia/<id>`` of each GPU.
        """
        return self.folder / "sys"

    def uuid(self, card: int) -> str:
        """Return the UUID of the GPU at a position."""
        return self._card(card).uuid

    def cards(self, cards: Sequence[NvmlGpu]) -> None:
        """Replace the GPUs: programs see new ones after their next nvmlInit, and lose others at once."""
        self._change(cards=self._completed(cards), pairs=(), failures=())

    def set(self, card: int, **fields: Any) -> None:
        """Change fields of a GPU; None makes a field NOT_SUPPORTED."""
        unknown = fields.keys() - set(NvmlGpu.__struct_fields__)
        if unknown:
            raise ConfigError(f"a card has no field {', '.join(sorted(unknown))}")
        changed = msgspec.structs.replace(self._card(card), **fields)
        cards = self._description.cards
        self._change(cards=(*cards[:card], changed, *cards[card + 1 :]))

    def processes(self, card: int, processes: Sequence[GpuProcess]) -> None:
        """Replace the processes on a GPU."""
        self.set(card, processes=tuple(processes))

    def lose(self, card: int) -> None:
        """Let a GPU fall off the bus."""
        self.set(card, lost=True)

    def restore(self, card: int) -> None:
        """Restore a lost GPU."""
        self.set(card, lost=False)

    def xid(self, card: int | None, code: int) -> None:
        """Report an XID error; with ``card`` None, the driver does not report the GPU."""
        self._change(events=self._with_events(card, code))

    def require(self, card: int, action: int) -> None:
        """Change the recovery action of a GPU, as the driver does after an error: with XID 154 and an event.

        A driver that knows no recovery action changes and reports nothing.
        """
        if ERAS[self._description.era].has_recovery_action:
            self.set(card, recovery_action=action)
            self._change(events=self._with_events(card, _RECOVERY_ACTION_CHANGED, None))

    def reset(self, card: int) -> None:
        """Reset a GPU like ``nvidia-smi --gpu-reset``, which no program may use; ConfigError if one does.

        It clears the recovery action and the counters since the last reset, and remaps pending rows. Neither
        an XID nor an event says so.
        """
        before = self._card(card)
        if before.processes:
            raise ConfigError(
                f"card {card} is in use by process {before.processes[0].pid}: it cannot be reset"
            )
        cleared = {name: 0 for name in _SINCE_RESET if getattr(before, name) is not None}
        self.set(card, lost=False, **cleared)

    def _with_events(self, card: int | None, *xids: int | None) -> tuple[NvmlEvent, ...]:
        """The events of the driver and new ones of that GPU."""
        events = self._description.events
        first = events[-1].number + 1 if events else 1
        uuid = None if card is None else self.uuid(card)
        new = (NvmlEvent(first + offset, xid, uuid) for offset, xid in enumerate(xids))
        return (*events, *new)[-MAX_EVENTS:]

    def hang(self) -> None:
        """Block every call of NVML, also one that waits for an event, until ``release``."""
        self._change(hang=True)

    def release(self) -> None:
        """Unblock the calls."""
        self._change(hang=False)

    def unload_driver(self) -> None:
        """Unload the kernel driver: every call fails with DRIVER_NOT_LOADED."""
        self._change(loaded=False)

    def load_driver(self, version: str | None = None) -> None:
        """Load the kernel driver; ``version`` replaces it.

        A process that has called NVML has the library of the previous version until it ends.
        """
        driver = self._description.driver if version is None else version
        self._change(loaded=True, driver=driver)

    def fail(self, function: str, code: int, card: int | None = None) -> None:
        """Let a function return an NVML error, for one GPU or for all."""
        others = [f for f in self._description.failures if (f.function, f.card) != (function, card)]
        self._change(failures=(*others, Failure(function, code, card)))

    def heal(self) -> None:
        """Undo ``fail`` for all functions."""
        self._change(failures=())

    def _card(self, position: int) -> NvmlGpu:
        cards = self._description.cards
        if not 0 <= position < len(cards):
            raise ConfigError(f"the stub NVML has no card {position}: it has {len(cards)}")
        return cards[position]

    def _completed(self, cards: Sequence[NvmlGpu]) -> tuple[NvmlGpu, ...]:
        return tuple(
            render.completed(card, position, str(self.folder)) for position, card in enumerate(cards)
        )

    def _change(self, **fields: Any) -> None:
        self._write(msgspec.structs.replace(self._description, **fields))

    def _write(self, description: Description) -> None:
        self._description = checked(description)
        self.folder.mkdir(parents=True, exist_ok=True)
        for card in self._description.cards:
            self._write_numa(card)
        self._write_bound()
        _replace(self.state, render.state(self._description).encode())

    def _write_bound(self) -> None:
        """The kernel has links here; programs read only their names."""
        driver = self.sysfs / "bus" / "pci" / "drivers" / "nvidia"
        driver.mkdir(parents=True, exist_ok=True)
        names = {render.sysfs_name(card) for card in self._description.cards}
        for entry in driver.iterdir():
            if entry.name not in names:
                entry.unlink()
        for name in names:
            (driver / name).touch()

    def _write_numa(self, card: NvmlGpu) -> None:
        node = self.sysfs / "bus" / "pci" / "devices" / render.sysfs_name(card) / "numa_node"
        node.parent.mkdir(parents=True, exist_ok=True)
        if card.numa is None:
            node.unlink(missing_ok=True)
        else:
            node.write_text(f"{card.numa}\n")


def _replace(path: Path, content: bytes) -> None:
    """Replace a file; its modification time increases with each version, which readers rely on."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    later = max(time.time_ns(), before + 1)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    os.utime(fresh, ns=(later, later))
    fresh.replace(path)
