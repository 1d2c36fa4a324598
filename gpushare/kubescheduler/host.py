"""A control plane host as the edit of its static pod sees it: the port of ``kubescheduler.edit``.

The command and the Job are on the host (``adapters.control_plane``); the Ansible collection reaches it over
SSH. What does not belong here: what is read and written.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class HostFile(NamedTuple):
    """A text file and its permissions."""

    text: str
    mode: int


class Target(NamedTuple):
    """What identifies the scheduler of one manifest.

    ``words`` end the command line of its processes. ``pod`` is ``<namespace>_<name>``, as the kubelet names
    its logs. One URL of each group in ``urls`` must answer 200.
    """

    words: Sequence[str]
    pod: str
    urls: Sequence[Sequence[str]] = ()


class Observation(NamedTuple):
    """What a host shows of a scheduler at one moment.

    ``processes`` are ``PID@START``, ``starts`` how often the pod was started, by folder of its logs.
    ``problem`` is why its URLs do not answer, empty if they do. ``log`` has the last lines of its log.
    """

    processes: frozenset[str] = frozenset()
    starts: Mapping[str, int] = {}
    problem: str = ""
    log: Sequence[str] = ()


class Host(Protocol):
    """Paths are those of the host. Each method raises ConfigError if it fails."""

    def read(self, path: str) -> HostFile | None:
        """Return a file, None if there is none."""
        ...

    def replace(self, path: str, file: HostFile, folder_mode: int) -> bool:
        """Replace a file atomically if its text differs, and return whether it did.

        A missing folder is created with ``folder_mode``.
        """
        ...

    def remove(self, path: str) -> bool:
        """Remove a file, and return whether there was one."""
        ...

    def observe(self, target: Target) -> Observation:
        """Count the starts first and look at the processes then, so that a counted start has begun."""
        ...

    def report(self, text: str) -> None:
        """Tell the user what was done."""
        ...

    def now(self) -> float:
        """Return a monotonic time in seconds."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
