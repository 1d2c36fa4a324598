"""A FAKE host of a control plane in memory: its kubelet restarts kube-scheduler when the manifest changes.

Time passes only while the edit sleeps.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from gpushare.kubescheduler.host import HostFile, Observation, Target
from gpushare.kubescheduler.plan import MANIFEST, target_of

Works = Callable[[str], bool]
"""Whether kube-scheduler starts with this manifest."""


@dataclass
class FakeHost:
    """``writes`` are the changed paths in their order; the next write of ``fails_at`` is interrupted."""

    files: dict[str, HostFile]
    works: Works = lambda _: True
    fails_at: str = ""
    clock: float = 0.0
    writes: list[str] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    generation: int = 1

    def read(self, path: str) -> HostFile | None:
        return self.files.get(path)

    def replace(self, path: str, file: HostFile, folder_mode: int) -> bool:
        del folder_mode
        if path == self.fails_at:
            self.fails_at = ""
            raise KeyboardInterrupt
        present = self.files.get(path)
        if present and present.text == file.text:
            return False
        self.files[path] = file
        self.writes.append(path)
        if path == MANIFEST:
            self.generation += 1
        return True

    def remove(self, path: str) -> bool:
        if self.files.pop(path, None) is None:
            return False
        self.writes.append(path)
        return True

    def observe(self, target: Target) -> Observation:
        manifest = self.files[MANIFEST].text
        starts = {f"logs-{self.generation}": int(self.clock)}
        if not self.works(manifest):
            return Observation(starts=starts, log=["cannot read its configuration"])
        same = target_of(manifest).words == target.words
        found = frozenset({f"{self.generation}@{self.generation}"}) if same else frozenset()
        return Observation(found, starts)

    def report(self, text: str) -> None:
        self.reports.append(text)

    def now(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds
