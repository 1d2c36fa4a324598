"""The edit of kube-scheduler's static pod on its node: write, see that it works, or put everything back.

What was there is in a journal before anything is changed, and the manifest is written last: the kubelet acts
on it at once. What is written is decided elsewhere (``cli.scheduler_manifest``, ``model.static_pod``).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from gpushare.adapters.files import read_file, remove_file, replace_file
from gpushare.adapters.static_pods import last_log_lines, problem_of, processes, unverified
from gpushare.errors import ConfigError
from gpushare.kubescheduler.health import health_urls
from gpushare.kubescheduler.journal import Files, Journal, journal_text
from gpushare.kubescheduler.static_pod import PROGRAM, Object, arguments_of

_JOURNAL: Final = "kube-scheduler.journal.json"
_LOGS: Final = "/var/log/pods"
_READABLE: Final = 0o644
"""No secrets are in the configuration, and the scheduler need not be root."""
_PRIVATE: Final = 0o600
_FOLDER: Final = 0o755
_POLL_S: Final = 0.5
_ANSWER_S: Final = 5.0
_EXTENDER_AFTER_S: Final = 30.0
"""At most, for an extender that answered before the edit."""

Ask = Callable[[], str]
"""Why the extender does not answer, empty where it does."""


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The files of a node. Paths are the node's own; ``root`` is where they are found."""

    root: Path
    manifest: str
    backup: str

    @property
    def journal(self) -> str:
        """Beside the backup, where the kubelet runs nothing."""
        return str(Path(self.backup).with_name(_JOURNAL))

    def at(self, path: str) -> Path:
        """Where the node's path is found."""
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str:
        """A file's text, empty where there is none. Raises ConfigError."""
        content = read_file(self.at(path)) if path else None
        return content.decode() if content else ""


@dataclass(frozen=True, slots=True)
class EditTimeouts:
    """In seconds: until the scheduler is healthy, how long it stays so, until the extender answers."""

    healthy_s: float
    settle_s: float
    extender_s: float


@dataclass(frozen=True, slots=True)
class PendingEdit:
    """What is on the node ``now``, what is to be there ``after``, and what to go back to.

    ``processes`` are those of the scheduler of ``before``. ``is_unproven`` is whether an earlier run was
    killed before it saw the scheduler work. ``keep`` is whether the manifest of now becomes the backup.
    """

    node: NodeFiles
    now: Files
    before: Files
    after: Files
    processes: frozenset[str]
    is_unproven: bool = False
    keep: bool = False


def perform(edit: PendingEdit, ask: Ask | None, limits: EditTimeouts) -> None:
    """Write the files and wait until the scheduler works, else put back what was there before.

    ``ask`` asks the extender; None where the scheduler is to do without it. Raises ConfigError with the
    reason, and says what is on the node then.
    """
    _check_extender(edit, ask, limits)
    if edit.keep:
        _check_scheduler(edit, limits)
    try:
        _prove(edit, _write(edit), ask, limits)
    except BaseException as error:
        _undo(edit, error, limits)
        raise
    _remove(edit.node, edit.node.journal, edit.before.config_file, keep=edit.after.config_file)
    click.echo(f"{PROGRAM} is healthy")


def running(manifest: str) -> frozenset[str]:
    """The processes that were started from this manifest, or one with the same command line."""
    return processes(PROGRAM, arguments_of(parse(manifest, "the static pod")))


def parse(text: str, path: str) -> Object:
    """YAML that must be a mapping. Raises ConfigError that names ``path``."""
    import yaml  # noqa: PLC0415 - slow to load, and --help does without

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path} is not a mapping")
    return document


def _check_extender(edit: PendingEdit, ask: Ask | None, limits: EditTimeouts) -> None:
    """Nothing is edited for an extender that does not answer, and what is unproven does not stay."""
    problem = _until_answered(ask, limits.extender_s) if ask else ""
    if not problem:
        return
    outcome = _put_back(edit, limits) if edit.is_unproven else "nothing was changed"
    raise ConfigError(
        f"{outcome}: the extender does not answer this node ({problem}); start it, or correct its URL"
    )


def _check_scheduler(edit: PendingEdit, limits: EditTimeouts) -> None:
    """What does not work before the edit could not be told from what the edit breaks."""
    problem = _until_healthy(edit.now.manifest, frozenset(), limits.healthy_s, 0)
    if problem:
        raise ConfigError(f"nothing was changed: {PROGRAM} is not healthy ({problem}); repair it first")


def _write(edit: PendingEdit) -> frozenset[str]:
    """Write what differs. Returns the processes that must not be taken for the new scheduler."""
    node, after = edit.node, edit.after
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


def _prove(edit: PendingEdit, replaced: frozenset[str], ask: Ask | None, limits: EditTimeouts) -> None:
    """Wait until a scheduler of the new manifest is healthy and the extender answers. Raises ConfigError."""
    problem = _until_healthy(edit.after.manifest, replaced, limits.healthy_s, limits.settle_s)
    if problem:
        log = _last_log_lines(edit)
        said = f"; its log: {' | '.join(log)}" if log else ""
        raise ConfigError(f"{PROGRAM} is not healthy after {limits.healthy_s:.0f} s: {problem}{said}")
    problem = _until_answered(ask, min(limits.extender_s, _EXTENDER_AFTER_S)) if ask else ""
    if problem:
        raise ConfigError(f"the extender does not answer this node ({problem})")


def _undo(edit: PendingEdit, error: BaseException, limits: EditTimeouts) -> None:
    """Put everything back, and name the reason where that is a ConfigError."""
    if edit.after == edit.now and not edit.is_unproven:
        outcome = "nothing was changed"
    else:
        click.echo(f"restoring {edit.node.manifest}: {error or type(error).__name__}", err=True)
        outcome = _put_back(edit, limits)
    if isinstance(error, ConfigError):
        raise ConfigError(f"{outcome}: {error}") from error
    click.echo(outcome, err=True)


def _put_back(edit: PendingEdit, limits: EditTimeouts) -> str:
    """Write what was there before, byte for byte, and say how the scheduler is then."""
    node, before = edit.node, edit.before
    replaced = running(before.manifest) - edit.processes
    if before.config:
        _replace(node, before.config_file, before.config, _READABLE)
    mode = node.at(node.manifest).stat().st_mode & 0o7777
    changed = _replace(node, node.manifest, before.manifest, mode)
    problem = _until_healthy(
        before.manifest, replaced if changed else frozenset(), limits.healthy_s, limits.settle_s
    )
    _remove(node, node.journal, edit.after.config_file, keep=before.config_file)
    state = f"is NOT healthy ({problem})" if problem else "is healthy again"
    return f"{node.manifest} is as it was, and {PROGRAM} {state}"


def _replace(node: NodeFiles, path: str, text: str, mode: int) -> bool:
    """Whether the file had to be written. It is replaced whole."""
    file = node.at(path)
    if read_file(file) == text.encode():
        click.echo(f"unchanged: {path}")
        return False
    replace_file(file, text.encode(), mode=mode)
    click.echo(f"changed: {path}")
    return True


def _remove(node: NodeFiles, *paths: str, keep: str) -> None:
    """Files that nothing reads any more."""
    for path in paths:
        if path and path != keep and remove_file(node.at(path)):
            click.echo(f"removed: {path}")


def _until_healthy(manifest: str, replaced: frozenset[str], limit_s: float, settle_s: float) -> str:
    """Empty once one and the same scheduler is healthy for ``settle_s``, else what was wrong at the end.

    Processes in ``replaced`` do not count.
    """
    pod = parse(manifest, "the static pod")
    urls = health_urls(pod, PROGRAM)
    healthy, since, end = frozenset[str](), 0.0, time.monotonic() + limit_s
    while True:
        found, problem = _look(arguments_of(pod), urls, replaced)
        now = time.monotonic()
        if problem or found != healthy:
            healthy, since = frozenset() if problem else found, now
        if not problem and now - since >= settle_s:
            return ""
        if now >= end:
            return problem or f"it was not healthy for {settle_s:.0f} s without a restart"
        time.sleep(_POLL_S)


def _look(
    arguments: list[str], urls: list[list[str]], replaced: frozenset[str]
) -> tuple[frozenset[str], str]:
    """The processes that count, and what is wrong."""
    found = processes(PROGRAM, arguments)
    if found - replaced:
        return found - replaced, _first_problem(urls)
    if found:
        return frozenset(), f"process {', '.join(sorted(found))} from before the edit runs on"
    return frozenset(), f"no process {PROGRAM} {' '.join(arguments)} runs"


def _first_problem(urls: list[list[str]]) -> str:
    """Of the first group of URLs of which none answers 200."""
    for group in urls:
        problems = [problem_of(url, unverified(), timeout_s=_ANSWER_S) for url in group]
        if all(problems):
            return "; ".join(problems)
    return ""


def _until_answered(ask: Ask, limit_s: float) -> str:
    """Empty once the extender answers, else why it did not."""
    end = time.monotonic() + limit_s
    while (problem := ask()) and time.monotonic() < end:
        time.sleep(_POLL_S)
    return problem


def _last_log_lines(edit: PendingEdit) -> list[str]:
    metadata = parse(edit.after.manifest, "the static pod")["metadata"]
    pod = f"{metadata.get('namespace', 'default')}_{metadata['name']}"
    return last_log_lines(edit.node.at(_LOGS), pod)
