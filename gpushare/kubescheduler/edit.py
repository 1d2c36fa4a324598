"""Edits the static pod of kube-scheduler on its host: write, check that it works, or restore everything.

The command, the Job and the role use this engine, each with its ``Host``. A journal records the previous
files before anything is changed, and the manifest is written last, because the kubelet acts on it at once.
What does not belong here: which texts are written (``kubescheduler.plan``).
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from gpushare.errors import ConfigError
from gpushare.kubescheduler.host import Host, HostFile, Observation, Target
from gpushare.kubescheduler.journal import Journal, journal_text
from gpushare.kubescheduler.plan import PendingEdit, running, target_of
from gpushare.kubescheduler.static_pod import PROGRAM

_READABLE: Final = 0o644
"""The configuration has no secrets, and the scheduler may run as another user than root."""
_PRIVATE: Final = 0o600
_FOLDER: Final = 0o755
_PRIVATE_FOLDER: Final = 0o700
_POLL_S: Final = 0.5
_GIVE_UP: Final = 3
"""Starts after which a scheduler that does not run is given up: the kubelet waits 10 s before the third."""


class EditTimeouts(NamedTuple):
    """In seconds: until the scheduler is healthy, and how long it must stay healthy."""

    healthy_s: float
    settle_s: float


class Probe(NamedTuple):
    """Asks the extender.

    ``ask`` returns why it does not answer, empty if it does. It has ``before_s`` seconds before the edit,
    None to edit without an answer, and ``after_s`` seconds after it.
    """

    ask: Callable[[], str]
    before_s: float | None
    after_s: float


def perform(host: Host, edit: PendingEdit, probe: Probe | None, timeouts: EditTimeouts) -> None:
    """Writes the files and waits until the scheduler works, else restores the previous files.

    ``probe`` is None if the extender is not asked. Raises ConfigError with the reason and the resulting state
    of the host.
    """
    _check_extender(host, edit, probe, timeouts)
    if edit.keep:
        _check_scheduler(host, edit, timeouts)
    started = _starts(host, edit)
    try:
        _verify(host, edit, _write(host, edit), probe, timeouts, started)
    except BaseException as error:
        _undo(host, edit, error, timeouts)
        raise
    spare = [edit.paths.backup] if edit.spare else []
    _remove(host, edit.paths.journal, edit.before.config_file, *spare, keep=edit.after.config_file)
    host.report(f"{PROGRAM} is healthy")


def _check_extender(host: Host, edit: PendingEdit, probe: Probe | None, timeouts: EditTimeouts) -> None:
    """Without an answer of the extender, nothing is edited and an unproven edit is undone."""
    if probe is None or probe.before_s is None:
        return
    problem = _until_answered(host, probe.ask, probe.before_s)
    if problem:
        outcome = _restore(host, edit, timeouts) if edit.is_unproven else "nothing was changed"
        raise ConfigError(
            f"{outcome}: the extender does not answer this node ({problem}); start it or fix its URL"
        )


def _check_scheduler(host: Host, edit: PendingEdit, timeouts: EditTimeouts) -> None:
    """The scheduler must be healthy before the edit, so that a later failure is due to the edit."""
    wait = _Wait(timeouts._replace(settle_s=0))
    problem = _until_healthy(host, target_of(edit.now.manifest), wait).problem
    if problem:
        raise ConfigError(f"nothing was changed: {PROGRAM} is not healthy ({problem}); fix it first")


def _write(host: Host, edit: PendingEdit) -> frozenset[str]:
    """Writes the files that differ. Returns the processes of the previous scheduler."""
    paths, after = edit.paths, edit.after
    for path, text in edit.copies.items():
        _replace(host, path, HostFile(text, _PRIVATE))
    if after == edit.now:
        host.report(f"unchanged: {paths.manifest}")
        return edit.processes if edit.is_unproven else frozenset()
    replaced = edit.processes | running(host, after.manifest)
    journal = Journal(edit.before, after.manifest, edit.processes)
    _replace(host, paths.journal, HostFile(journal_text(journal), _PRIVATE), _PRIVATE_FOLDER)
    if edit.keep:
        _replace(host, paths.backup, HostFile(edit.now.manifest, edit.mode), _PRIVATE_FOLDER)
    if after.config_file:
        _replace(host, after.config_file, HostFile(after.config, _READABLE))
    changed = _replace(host, paths.manifest, HostFile(after.manifest, edit.mode))
    return replaced if changed else frozenset()


def _starts(host: Host, edit: PendingEdit) -> Mapping[str, int]:
    """How often the pod was started so far."""
    return host.observe(target_of(edit.after.manifest)._replace(urls=())).starts


def _verify(
    host: Host,
    edit: PendingEdit,
    replaced: frozenset[str],
    probe: Probe | None,
    timeouts: EditTimeouts,
    started: Mapping[str, int],
) -> None:
    """Waits until a scheduler of the new manifest is healthy and the extender answers. Raises ConfigError."""
    began = host.now()
    wait = _Wait(timeouts, replaced, started)
    last = _until_healthy(host, target_of(edit.after.manifest), wait)
    if last.problem:
        quoted = f"; its log: {' | '.join(last.log)}" if last.log else ""
        after = f"after {host.now() - began:.0f} s"
        raise ConfigError(f"{PROGRAM} is not healthy {after}: {last.problem}{quoted}")
    problem = _until_answered(host, probe.ask, probe.after_s) if probe else ""
    if problem:
        raise ConfigError(f"the extender does not answer this node ({problem})")


def _undo(host: Host, edit: PendingEdit, error: BaseException, timeouts: EditTimeouts) -> None:
    """Restores everything. Raises a ConfigError again with the outcome; reports it for other errors."""
    if edit.after == edit.now and not edit.is_unproven:
        outcome = "nothing was changed"
    else:
        host.report(f"restoring {edit.paths.manifest}: {str(error) or type(error).__name__}")
        outcome = _restore(host, edit, timeouts)
    if isinstance(error, ConfigError):
        raise ConfigError(f"{outcome}: {error}") from error
    host.report(outcome)


def _restore(host: Host, edit: PendingEdit, timeouts: EditTimeouts) -> str:
    """Restores the previous files byte for byte, and returns the state of the scheduler."""
    paths, before = edit.paths, edit.before
    replaced = running(host, before.manifest) - edit.processes
    if before.config:
        _replace(host, before.config_file, HostFile(before.config, _READABLE))
    changed = _replace(host, paths.manifest, HostFile(before.manifest, edit.mode))
    wait = _Wait(timeouts, replaced if changed else frozenset())
    problem = _until_healthy(host, target_of(before.manifest), wait).problem
    _remove(host, paths.journal, edit.after.config_file, keep=before.config_file)
    state = f"is NOT healthy ({problem})" if problem else "is healthy again"
    return f"{paths.manifest} was restored, and {PROGRAM} {state}"


def _replace(host: Host, path: str, file: HostFile, folder_mode: int = _FOLDER) -> bool:
    """Replaces the file if it differs, and returns whether it did."""
    changed = host.replace(path, file, folder_mode)
    host.report(f"{'changed' if changed else 'unchanged'}: {path}")
    return changed


def _remove(host: Host, *paths: str, keep: str) -> None:
    """Removes files that are no longer used."""
    for path in paths:
        if path and path != keep and host.remove(path):
            host.report(f"removed: {path}")


class _Wait(NamedTuple):
    """How to wait: processes in ``replaced`` are ignored.

    ``started`` are the starts before the edit: a scheduler that ends each time is given up early. None for
    one that is waited for until the end.
    """

    timeouts: EditTimeouts
    replaced: frozenset[str] = frozenset()
    started: Mapping[str, int] | None = None

    def ended(self, seen: Observation) -> int:
        """How often it was started since the edit, all of them ended if there is no process."""
        if self.started is None:
            return 0
        counts = (count - self.started.get(folder, 0) for folder, count in seen.starts.items())
        return max(counts, default=0)


def _until_healthy(host: Host, target: Target, wait: _Wait) -> Observation:
    """Returns without a problem once one process was healthy for ``settle_s``, else with the last one."""
    healthy, since, end = frozenset[str](), 0.0, host.now() + wait.timeouts.healthy_s
    had_ended = False
    while True:
        seen = _judged(host.observe(target), target, wait.replaced)
        now = host.now()
        if seen.problem or seen.processes != healthy:
            healthy, since = frozenset() if seen.problem else seen.processes, now
        if not seen.problem and now - since >= wait.timeouts.settle_s:
            return seen
        ended = wait.ended(seen)
        has_ended = not seen.processes and ended >= _GIVE_UP
        if has_ended and had_ended:
            return seen._replace(problem=f"{seen.problem}: it has ended {ended} times")
        # Once more: the container runtime may still write the last lines of the log.
        had_ended = has_ended
        if now >= end:
            late = f"it did not stay healthy for {wait.timeouts.settle_s:.0f} s without a restart"
            return seen._replace(problem=seen.problem or late)
        host.sleep(_POLL_S)


def _judged(seen: Observation, target: Target, replaced: frozenset[str]) -> Observation:
    """Only the new processes; without them, that is the problem."""
    new = seen.processes - replaced
    if new:
        return seen._replace(processes=new)
    found = ", ".join(sorted(seen.processes))
    problem = (
        f"process {found} from before the edit is still running"
        if found
        else f"there is no process {PROGRAM} {' '.join(target.words)}"
    )
    return seen._replace(processes=new, problem=problem)


def _until_answered(host: Host, ask: Callable[[], str], limit_s: float) -> str:
    """Returns "" once the extender answers, else the reason."""
    end = host.now() + limit_s
    while (problem := ask()) and host.now() < end:
        host.sleep(_POLL_S)
    return problem
