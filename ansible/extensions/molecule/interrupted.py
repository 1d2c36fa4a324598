"""Runs a playbook and kills it at a task: ``interrupted.py INVENTORY PLAYBOOK TASK``.

The run gets SIGKILL when it prints the name of TASK; programs that it has started on the hosts may continue
or stop, as after a lost connection. Fails if the run never reaches TASK.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

_CHECKOUT = Path(__file__).parents[3]
_ANSIBLE = Path(sys.executable).with_name("ansible-playbook")


def kill_at(inventory: str, playbook: str, task: str) -> None:
    """Start ``playbook`` and kill it at ``task``; raise SystemExit with its output if it ends before."""
    command = [str(_ANSIBLE), "-i", inventory, playbook]
    lines: list[str] = []
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=_CHECKOUT, text=True, start_new_session=True, **both) as run:  # noqa: S603 - the playbook of a scenario
        for line in run.stdout or ():
            lines.append(line)
            if line.startswith("TASK [") and task in line:
                os.killpg(run.pid, signal.SIGKILL)
                return
    raise SystemExit(f"the run ended without task {task!r}:\n{''.join(lines)}")


if __name__ == "__main__":
    kill_at(*sys.argv[1:])
