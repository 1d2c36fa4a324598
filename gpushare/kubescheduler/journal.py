"""The journal of an edit of kube-scheduler's static pod: the files before and after.

It is written before anything is changed, so that the next run can finish or undo an interrupted edit. What
does not belong here: reading and writing the file.
"""

import json
from typing import NamedTuple

from gpushare.errors import ConfigError


class Files(NamedTuple):
    """The files of one kube-scheduler.

    ``config_file`` is the path of our configuration, empty if the manifest does not use one; ``config`` is
    its text, empty if there is no such file.
    """

    manifest: str
    config_file: str = ""
    config: str = ""


class Journal(NamedTuple):
    """An edit that has started and is not verified.

    ``written`` is the new manifest. ``processes`` are those of kube-scheduler before the edit, as
    ``PID@START``.
    """

    before: Files
    written: str
    processes: frozenset[str]


def journal_text(journal: Journal) -> str:
    """The text of the file."""
    rest = {"written": journal.written, "processes": sorted(journal.processes)}
    return json.dumps({**journal.before._asdict(), **rest}) + "\n"


def parse_journal(text: str, path: str) -> Journal:
    """Parses the text of the file. Raises ConfigError that names ``path`` if it is not a journal."""
    try:
        found = json.loads(text)
        before = Files(*(str(found[name]) for name in Files._fields))
        return Journal(before, str(found["written"]), frozenset(map(str, found["processes"])))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{path} is not the journal of an interrupted edit; compare the manifest of kube-scheduler with "
            f"its backup beside that file, then delete {path}"
        ) from error


def is_unproven(journal: Journal, manifest: str) -> bool:
    """Whether the manifest is from the edit of the journal, started or finished.

    Otherwise it was replaced since, for example by ``kubeadm upgrade``, and the journal does not apply.
    """
    return manifest in (journal.before.manifest, journal.written)
