"""What MPS control daemons are told, and what their answers mean. Pure.

Commands, answers and variables are those of NVIDIA's manual page nvidia-cuda-mps-control(1) and of its
"Multi-Process Service" guide. The program is daemon and client in one: with ``-f`` it serves, without a
flag it sends what it reads from stdin to the daemon of the folder of pipes that its environment names.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpushare.contract import ENV_MPS_LOGS, ENV_MPS_PIPES
from gpushare.mps.layout import logs_of, pipes_of

PROGRAM: Final = "nvidia-cuda-mps-control"
ALIVE: Final = "get_default_active_thread_percentage"
"""Asks for a number that a daemon always has."""
SERVERS: Final = "get_server_list"
_LONGEST_PAUSE_S: Final = 60.0
_DOUBLINGS: Final = 10
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?")


def clients_of(server: int) -> str:
    """Asks for the processes that a server serves."""
    return f"get_client_list {server}"


def end_within(seconds: int) -> str:
    """Has the daemon end with its servers: at once where they have no clients, by force after that time."""
    return f"quit -t {seconds}"


def environment(base: Mapping[str, str], state: Path, uuid: str) -> dict[str, str]:
    """The environment of one card's daemon and of those who talk to it.

    Nothing of CUDA's own comes from ``base``: what a daemon has there becomes the limit of all its clients.
    """
    return {
        **{name: value for name, value in base.items() if not name.startswith("CUDA_")},
        "CUDA_VISIBLE_DEVICES": uuid,
        ENV_MPS_PIPES: str(pipes_of(state, uuid)),
        ENV_MPS_LOGS: str(logs_of(state, uuid)),
    }


def is_alive(answer: str) -> bool:
    """Whether that is what a daemon says to ``ALIVE``."""
    return bool(_NUMBER.fullmatch(answer.strip()))


def pids_in(answer: str) -> tuple[int, ...]:
    """The processes of a list, one a line; what is no number is left out."""
    return tuple(int(word) for word in answer.split() if word.isdecimal())


def pause_s(failures: int) -> float:
    """Seconds until a daemon that did not start, or ended, so many times in a row is started again."""
    return min(_LONGEST_PAUSE_S, 2.0 ** min(failures - 1, _DOUBLINGS)) if failures else 0.0
