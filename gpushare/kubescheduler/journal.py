"""The journal of an edit of kube-scheduler's static pod: what was there, and what took its place.

It is on the node's disk before anything is changed, so that the next run can finish or undo what a killed
run has left. The role ``scheduler_extender`` keeps the same file. What does not belong here: reading and
writing it.
"""

import json
from typing import NamedTuple

from gpushare.errors import ConfigError


class Files(NamedTuple):
    """What one kube-scheduler is started from.

    ``config_file`` is the path of our configuration, empty where the manifest names none; ``config`` is its
    text, empty where there is no such file.
    """

    manifest: str
    config_file: str = ""
    config: str = ""


class Journal(NamedTuple):
    """An edit that has begun and is not proven to work.

    ``written`` is the new manifest, empty in a journal of the role. ``processes`` are those of kube-scheduler
    from before the edit, ``PID@START``.
    """

    before: Files
    written: str = ""
    processes: frozenset[str] = frozenset()


def journal_text(journal: Journal) -> str:
    """As it is stored."""
    rest = {"written": journal.written, "processes": sorted(journal.processes)}
    return json.dumps({**journal.before._asdict(), **rest}) + "\n"


def parse_journal(text: str, path: str) -> Journal:
    """Raises ConfigError that names ``path`` for what is no journal."""
    try:
        found = json.loads(text)
        before = Files(*(str(found[name]) for name in Files._fields))
        processes = frozenset(map(str, found.get("processes", ())))
        return Journal(before, str(found.get("written", "")), processes)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} is not the journal of an interrupted edit; compare the manifest of kube-scheduler with "
            f"its backup beside that file, then delete {path}"
        ) from error


def is_unproven(journal: Journal, manifest: str, *, is_installed: bool) -> bool:
    """Whether the manifest that is there is from the edit of the journal, begun or finished.

    Otherwise somebody has replaced it since, such as ``kubeadm upgrade``, and the journal says nothing of
    it. ``is_installed`` is whether our configuration is in it.
    """
    if manifest in (journal.before.manifest, journal.written):
        return True
    return is_installed and not journal.written
