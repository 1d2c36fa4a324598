"""Commands to MPS control daemons and the parsing of their answers. Pure.

Commands, answers and variables are those of NVIDIA's manual page nvidia-cuda-mps-control(1) and of its
"Multi-Process Service" guide. The program is both daemon and client: with ``-f`` it serves; without a flag
it sends its stdin to the daemon of the pipe directory in its environment.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpushare.contract import ENV_MPS_LOGS, ENV_MPS_PIPES
from gpushare.mps.layout import logs_of, pipes_of

PROGRAM: Final = "nvidia-cuda-mps-control"
ALIVE: Final = "get_default_active_thread_percentage"
"""A query that every running daemon answers with a number."""
SERVERS: Final = "get_server_list"
_MAX_BACKOFF_S: Final = 60.0
_MAX_DOUBLINGS: Final = 10
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?")


def clients_of(server: int) -> str:
    """The command that lists the client processes of a server."""
    return f"get_client_list {server}"


def quit_within(seconds: int) -> str:
    """The command that stops the daemon and its servers: at once without clients, else after that time."""
    return f"quit -t {seconds}"


def environment(base: Mapping[str, str], state: Path, uuid: str) -> dict[str, str]:
    """The environment of the control daemon of one GPU and of its clients.

    CUDA variables of ``base`` are dropped: in the environment of a daemon they would limit all its clients.
    """
    return {
        **{name: value for name, value in base.items() if not name.startswith("CUDA_")},
        "CUDA_VISIBLE_DEVICES": uuid,
        ENV_MPS_PIPES: str(pipes_of(state, uuid)),
        ENV_MPS_LOGS: str(logs_of(state, uuid)),
    }


def is_alive(answer: str) -> bool:
    """Whether ``answer`` is a valid answer to ``ALIVE``."""
    return bool(_NUMBER.fullmatch(answer.strip()))


def pids_in(answer: str) -> tuple[int, ...]:
    """The PIDs in a list with one PID per line; other words are ignored."""
    return tuple(int(word) for word in answer.split() if word.isdecimal())


def backoff_s(failures: int) -> float:
    """Seconds until the next start of a daemon after so many consecutive failures."""
    return min(_MAX_BACKOFF_S, 2.0 ** min(failures - 1, _MAX_DOUBLINGS)) if failures else 0.0
