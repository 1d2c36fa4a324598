"""A control plane host as the controller reaches it: the ``Host`` of the engine in ``kubescheduler.edit``.

What belongs here: each method of the port as a module on the host. What does not: the edit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.errors import ConfigError
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.kubescheduler.config import (
    Tls,
    version_url,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.kubescheduler.host import (
    HostFile,
    Observation,
    Target,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.lazy import to_plain

Run = Callable[[str, dict[str, Any]], Mapping[str, Any]]
"""Runs a module with these arguments on the host, and returns its result."""
STATE = "gpushare.nodes.static_pod_state"


class RemoteHost:
    """``done`` lists what was done, and ``changed`` is whether a file was."""

    def __init__(self, run: Run) -> None:
        self._run, self._parent = run, os.getppid()
        self.done: list[str] = []
        self.changed = False

    def read(self, path: str) -> HostFile | None:
        """As the port says."""
        found = self._answer("gpushare.nodes.read_files", paths=[path])
        if path not in found["texts"]:
            return None
        return HostFile(found["texts"][path], int(found["modes"][path], 8))

    def replace(self, path: str, file: HostFile, folder_mode: int) -> bool:
        """As the port says."""
        written = self._answer(
            "gpushare.nodes.write_file",
            path=path,
            content=file.text,
            mode=f"{file.mode:04o}",
            folder_mode=f"{folder_mode:04o}",
        )
        return self._noted(written)

    def remove(self, path: str) -> bool:
        """As the port says."""
        return self._noted(self._answer("ansible.builtin.file", path=path, state="absent"))

    def observe(self, target: Target) -> Observation:
        """As the port says."""
        urls = [url for group in target.urls for url in group]
        state = self._answer(STATE, words=list(target.words), pod=target.pod, urls=urls)
        problems = ([state["problems"][url] for url in group] for group in target.urls)
        problem = next(("; ".join(group) for group in problems if all(group)), "")
        return Observation(frozenset(state["processes"]), state["starts"], problem, state["log"])

    def problem_of(self, url: str, tls: Tls | None, timeout_s: int) -> str:
        """Return why the extender at that URL does not answer the host, "" if it does."""
        files = asdict(tls) if tls else {}
        asked = version_url(url)
        try:
            state = self._answer(STATE, urls=[asked], timeout_s=timeout_s, **files)
        except ConfigError as error:  # of a module that crashes
            return f"{asked}: {error}"
        return str(state["problems"][asked])

    def report(self, text: str) -> None:
        """As the port says."""
        self.done.append(text)

    def now(self) -> float:
        """As the port says."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """As the port says."""
        time.sleep(seconds)

    def _noted(self, result: Mapping[str, Any]) -> bool:
        changed = bool(result.get("changed"))
        self.changed = self.changed or changed
        return changed

    def _answer(self, module: str, **arguments: Any) -> Mapping[str, Any]:
        # Ansible's worker process outlives a killed run, and the next run would edit at the same time.
        if os.getppid() != self._parent:
            raise SystemExit("the run of Ansible has ended")
        result = self._run(module, arguments)
        if result.get("failed"):
            raise ConfigError(str(result.get("msg") or f"{module} has failed"))
        answer: Mapping[str, Any] = to_plain(result)
        return answer
