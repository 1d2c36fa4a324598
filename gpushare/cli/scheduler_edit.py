"""Edits the static pod of kube-scheduler on its node: write, check that it works, or restore everything.

A journal records the previous files before anything is changed, and the manifest is written last, because the
kubelet acts on it at once. The content is decided in ``cli.scheduler_manifest`` and
``kubescheduler.static_pod``.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from gpushare.adapters.files import read_file, remove_file, replace_file
from gpushare.adapters.static_pods import last_log_lines, problem_of, processes, starts, unverified
from gpushare.errors import ConfigError, cause_of
from gpushare.kubescheduler.health import health_urls
from gpushare.kubescheduler.journal import Files, Journal, journal_text
from gpushare.kubescheduler.static_pod import PROGRAM, Object, arguments_of

_JOURNAL: Final = "kube-scheduler.journal.json"
_LOGS: Final = "/var/log/pods"
_READABLE: Final = 0o644
"""The configuration has no secrets, and the scheduler may run as another user than root."""
_PRIVATE: Final = 0o600
_FOLDER: Final = 0o755
_POLL_S: Final = 0.5
_ANSWER_S: Final = 5.0
_EXTENDER_AFTER_S: Final = 30.0
"""Upper limit, for an extender that answered before the edit."""
_GIVE_UP: Final = 3
"""Starts after which a scheduler that does not run is given up: the kubelet waits 10 s before the third."""

NOTHING: Final[Mapping[str, bytes]] = MappingProxyType({})

Probe = Callable[[], str]
"""Asks the extender; returns why it does not answer, empty if it does."""


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The files of a node. Paths are those of the node; ``root`` is where its file system is mounted."""

    root: Path
    manifest: str
    backup: str

    @property
    def journal(self) -> str:
        """Beside the backup, outside the folder of static pods."""
        return str(Path(self.backup).with_name(_JOURNAL))

    def at(self, path: str) -> Path:
        """The path below ``root``."""
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str | None:
        """The text of a file, None if there is none. Raises ConfigError if it cannot be read."""
        content = read_file(self.at(path))
        try:
            return None if content is None else content.decode()
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not text: {cause_of(error)}") from error


@dataclass(frozen=True, slots=True)
class EditTimeouts:
    """In seconds: until the scheduler is healthy, while it must stay healthy, until the extender answers."""

    healthy_s: float
    settle_s: float
    extender_s: float


@dataclass(frozen=True, slots=True)
class PendingEdit:
    """The files on the node ``now``, those to write (``after``), and those to restore (``before``).

    ``processes`` are those of the scheduler of ``before``. ``is_unproven`` is whether an earlier run was
    killed before the scheduler was healthy. ``keep`` is whether the current manifest becomes the backup.
    ``copies`` are certificates by path: they replace earlier ones of the same clients, and stay.
    """

    node: NodeFiles
    now: Files
    before: Files
    after: Files
    processes: frozenset[str]
    is_unproven: bool = False
    keep: bool = False
    copies: Mapping[str, bytes] = field(default_factory=lambda: NOTHING)


def perform(edit: PendingEdit, probe: Probe | None, timeouts: EditTimeouts) -> None:
    """Writes the files and waits until the scheduler works, else restores the previous files.

    ``probe`` asks the extender; None if the scheduler no longer uses it. Raises ConfigError with the reason
    and the resulting state of the node.
    """
    _check_extender(edit, probe, timeouts)
    if edit.keep:
        _check_scheduler(edit, timeouts)
    started = _count_starts(edit)
    try:
        _verify(edit, _write(edit), probe, timeouts, started)
    except BaseException as error:
        _undo(edit, error, timeouts)
        raise
    _remove(edit.node, edit.node.journal, edit.before.config_file, keep=edit.after.config_file)
    click.echo(f"{PROGRAM} is healthy")


def running(manifest: str) -> frozenset[str]:
    """The processes that were started from this manifest, or from one with the same command line."""
    return processes(PROGRAM, arguments_of(parse(manifest, "the static pod")))


def parse(text: str, path: str) -> Object:
    """Parses YAML that must be a mapping. Raises ConfigError that names ``path``."""
    import yaml

    from gpushare.model import yaml_text

    try:
        document = yaml_text.parse(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {cause_of(error)}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path} is not a mapping")
    return document


def _check_extender(edit: PendingEdit, probe: Probe | None, timeouts: EditTimeouts) -> None:
    """Without an answer of the extender, nothing is edited and an unproven edit is undone."""
    problem = _until_answered(probe, timeouts.extender_s) if probe else ""
    if not problem:
        return
    outcome = _restore(edit, timeouts) if edit.is_unproven else "nothing was changed"
    raise ConfigError(
        f"{outcome}: the extender does not answer this node ({problem}); start it or fix its URL"
    )


def _check_scheduler(edit: PendingEdit, timeouts: EditTimeouts) -> None:
    """The scheduler must be healthy before the edit, so that a later failure is due to the edit."""
    problem = _until_healthy(edit.now.manifest, frozenset(), timeouts.healthy_s, 0)
    if problem:
        raise ConfigError(f"nothing was changed: {PROGRAM} is not healthy ({problem}); fix it first")


def _write(edit: PendingEdit) -> frozenset[str]:
    """Writes the files that differ. Returns the processes of the previous scheduler."""
    node, after = edit.node, edit.after
    for path, content in edit.copies.items():
        node.at(path).parent.mkdir(mode=_FOLDER, exist_ok=True)
        _replace(node, path, content, _PRIVATE)
    if after == edit.now:
        click.echo(f"unchanged: {node.manifest}")
        return edit.processes if edit.is_unproven else frozenset()
    mode = node.at(node.manifest).stat().st_mode & 0o7777
    replaced = edit.processes | running(after.manifest)
    journal = Journal(edit.before, after.manifest, edit.processes)
    _replace(node, node.journal, journal_text(journal), _PRIVATE)
    if edit.keep:
        _replace(node, node.backup, edit.now.manifest, mode)
    if after.config_file:
        node.at(after.config_file).parent.mkdir(mode=_FOLDER, exist_ok=True)
        _replace(node, after.config_file, after.config, _READABLE)
    return replaced if _replace(node, node.manifest, after.manifest, mode) else frozenset()


def _count_starts(edit: PendingEdit) -> Callable[[], int]:
    """Returns a function that counts the starts of the scheduler from now on."""
    logs, pod = edit.node.at(_LOGS), _pod_of(edit)
    earlier = starts(logs, pod)
    return lambda: max((count - earlier.get(each, 0) for each, count in starts(logs, pod).items()), default=0)


def _verify(
    edit: PendingEdit,
    replaced: frozenset[str],
    probe: Probe | None,
    timeouts: EditTimeouts,
    started: Callable[[], int],
) -> None:
    """Waits until a scheduler of the new manifest is healthy and the extender answers. Raises ConfigError."""
    began = time.monotonic()
    problem = _until_healthy(edit.after.manifest, replaced, timeouts.healthy_s, timeouts.settle_s, started)
    if problem:
        log = last_log_lines(edit.node.at(_LOGS), _pod_of(edit))
        quoted = f"; its log: {' | '.join(log)}" if log else ""
        after = f"after {time.monotonic() - began:.0f} s"
        raise ConfigError(f"{PROGRAM} is not healthy {after}: {problem}{quoted}")
    problem = _until_answered(probe, min(timeouts.extender_s, _EXTENDER_AFTER_S)) if probe else ""
    if problem:
        raise ConfigError(f"the extender does not answer this node ({problem})")


def _undo(edit: PendingEdit, error: BaseException, timeouts: EditTimeouts) -> None:
    """Restores everything. Raises a ConfigError again with the outcome; prints it for other errors."""
    if edit.after == edit.now and not edit.is_unproven:
        outcome = "nothing was changed"
    else:
        click.echo(f"restoring {edit.node.manifest}: {error or type(error).__name__}", err=True)
        outcome = _restore(edit, timeouts)
    if isinstance(error, ConfigError):
        raise ConfigError(f"{outcome}: {error}") from error
    click.echo(outcome, err=True)


def _restore(edit: PendingEdit, timeouts: EditTimeouts) -> str:
    """Restores the previous files byte for byte, and returns the state of the scheduler."""
    node, before = edit.node, edit.before
    replaced = running(before.manifest) - edit.processes
    if before.config:
        _replace(node, before.config_file, before.config, _READABLE)
    mode = node.at(node.manifest).stat().st_mode & 0o7777
    changed = _replace(node, node.manifest, before.manifest, mode)
    problem = _until_healthy(
        before.manifest, replaced if changed else frozenset(), timeouts.healthy_s, timeouts.settle_s
    )
    _remove(node, node.journal, edit.after.config_file, keep=before.config_file)
    state = f"is NOT healthy ({problem})" if problem else "is healthy again"
    return f"{node.manifest} was restored, and {PROGRAM} {state}"


def _replace(node: NodeFiles, path: str, content: str | bytes, mode: int) -> bool:
    """Replaces the file atomically if it differs, and returns whether it did."""
    file, new = node.at(path), content.encode() if isinstance(content, str) else content
    if read_file(file) == new:
        click.echo(f"unchanged: {path}")
        return False
    replace_file(file, new, mode=mode)
    click.echo(f"changed: {path}")
    return True


def _remove(node: NodeFiles, *paths: str, keep: str) -> None:
    """Removes files that are no longer used."""
    for path in paths:
        if path and path != keep and remove_file(node.at(path)):
            click.echo(f"removed: {path}")


def _until_healthy(
    manifest: str,
    replaced: frozenset[str],
    limit_s: float,
    settle_s: float,
    started: Callable[[], int] = lambda: 0,
) -> str:
    """Returns "" once one scheduler process was healthy for ``settle_s``, else the last problem.

    Processes in ``replaced`` are ignored. ``started`` counts the starts: a scheduler that ends each time is
    given up early.
    """
    pod = parse(manifest, "the static pod")
    urls = health_urls(pod, PROGRAM)
    healthy, since, end = frozenset[str](), 0.0, time.monotonic() + limit_s
    had_ended = False
    while True:
        # Counted before the look at the processes: a start that is counted and has no process then has ended.
        ended = started()
        found, problem = _observe(arguments_of(pod), urls, replaced)
        now = time.monotonic()
        if problem or found != healthy:
            healthy, since = frozenset() if problem else found, now
        if not problem and now - since >= settle_s:
            return ""
        has_ended = not found and ended >= _GIVE_UP
        if has_ended and had_ended:
            return f"{problem}: it has ended {ended} times"
        # Once more: the container runtime may still write the last lines of the log.
        had_ended = has_ended
        if now >= end:
            return problem or f"it did not stay healthy for {settle_s:.0f} s without a restart"
        time.sleep(_POLL_S)


def _observe(
    arguments: list[str], urls: list[list[str]], replaced: frozenset[str]
) -> tuple[frozenset[str], str]:
    """The new processes, and the problem."""
    found = processes(PROGRAM, arguments)
    if found - replaced:
        return found - replaced, _first_problem(urls)
    if found:
        return frozenset(), f"process {', '.join(sorted(found))} from before the edit is still running"
    return frozenset(), f"there is no process {PROGRAM} {' '.join(arguments)}"


def _first_problem(urls: list[list[str]]) -> str:
    """The problem of the first group in which no URL answers 200."""
    for group in urls:
        problems = [problem_of(url, unverified(), timeout_s=_ANSWER_S) for url in group]
        if all(problems):
            return "; ".join(problems)
    return ""


def _until_answered(probe: Probe, limit_s: float) -> str:
    """Returns "" once the extender answers, else the reason."""
    end = time.monotonic() + limit_s
    while (problem := probe()) and time.monotonic() < end:
        time.sleep(_POLL_S)
    return problem


def _pod_of(edit: PendingEdit) -> str:
    """The pod of the new manifest, as the kubelet names its logs."""
    metadata = parse(edit.after.manifest, "the static pod")["metadata"]
    return f"{metadata.get('namespace', 'default')}_{metadata['name']}"
