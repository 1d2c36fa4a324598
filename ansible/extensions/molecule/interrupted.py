"""Run a playbook and kill it in the middle: ``interrupted.py INVENTORY PLAYBOOK TASK``.

The run is killed as hard as a power cut would when it prints TASK's name: what it has started on the hosts
goes on or not, as after a lost connection. Fails where the run never comes to TASK.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

_CHECKOUT = Path(__file__).parents[3]
_ANSIBLE = Path(sys.executable).with_name("ansible-playbook")


def kill_at(inventory: str, playbook: str, task: str) -> None:
    """Start ``playbook`` and kill it at ``task``; raise SystemExit with its output where it ends before."""
    command = [str(_ANSIBLE), "-i", inventory, playbook]
    seen: list[str] = []
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=_CHECKOUT, text=True, start_new_session=True, **both) as run:  # noqa: S603 - the scenario's own
        for line in run.stdout or ():
            seen.append(line)
            if line.startswith("TASK [") and task in line:
                os.killpg(run.pid, signal.SIGKILL)
                return
    raise SystemExit(f"the run ended without a task {task!r}:\n{''.join(seen)}")


if __name__ == "__main__":
    kill_at(*sys.argv[1:])
