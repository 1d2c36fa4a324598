"""FAKE nvidia-cuda-mps-control, for tests: no CUDA, no servers, no GPUs.

Like the real one (NVIDIA's manual page nvidia-cuda-mps-control(1)), it serves with -f or -d, and without a
flag sends each line of stdin to the daemon of CUDA_MPS_PIPE_DIRECTORY and prints the responses. It logs its
GPU and all commands in control.log in CUDA_MPS_LOG_DIRECTORY.

Additional commands: ``fake_client PID`` adds a client to server 1; ``fake_die CODE`` exits at once;
``fake_hang`` stops all responses. With a file ``fake_broken`` in the pipe directory, it does not start.
"""

import os
import signal
import socket
import sys
import time
from pathlib import Path

PIPES = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))  # noqa: S108 - the real one's default
LOGS = Path(os.environ.get("CUDA_MPS_LOG_DIRECTORY", "/var/log/nvidia-mps"))
CARD = os.environ.get("CUDA_VISIBLE_DEVICES", "")
SERVER = "1"
SOCKET = "control"


class Daemon:
    """The clients, and the log of commands."""

    def __init__(self) -> None:
        self._clients: list[str] = []
        self._note(f"Start for card {CARD}")

    def answer(self, line: str) -> str:
        """Return the output of the real one, for the commands that gpushare uses."""
        self._note(line)
        match line.split():
            case ["get_default_active_thread_percentage"]:
                return "100.0"
            case ["get_server_list"]:
                return SERVER if self._clients else ""
            case ["get_client_list", server]:
                return "\n".join(self._clients) if server == SERVER else ""
            case ["quit", *_]:
                sys.exit()
            case ["fake_client", pid]:
                self._clients.append(pid)
                return ""
            case ["fake_die", code]:
                os._exit(int(code))
            case ["fake_hang"]:
                signal.pause()
        return f"Unknown command (FAKE): {line}"

    def _note(self, text: str) -> None:
        with (LOGS / "control.log").open("a") as log:
            log.write(f"[{time.ctime()} Control {os.getpid():5}] FAKE: {text}\n")


def serve() -> None:
    """Serve one client after the other, until the command ``quit``."""
    # The path of a socket has at most 107 characters.
    os.chdir(PIPES)
    if Path("fake_broken").exists():
        sys.exit("FAKE: fake_broken exists")
    if connected():
        sys.exit("An instance of this daemon is already running")
    Path(SOCKET).unlink(missing_ok=True)
    Path("nvidia-cuda-mps-control.pid").write_text(f"{os.getpid()}\n")
    daemon = Daemon()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(SOCKET)
        Path(SOCKET).chmod(0o666)
        listener.listen()
        while True:
            client, _ = listener.accept()
            with client, client.makefile("rw") as stream:
                for line in stream:
                    stream.write(f"{daemon.answer(line.strip())}\n")


def connected() -> socket.socket | None:
    """Connect to the daemon of the pipe directory; None if there is none."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        os.chdir(PIPES)
        connection.connect(SOCKET)
    except OSError:
        connection.close()
        return None
    return connection


def send() -> None:
    """Send stdin to the daemon, and print its responses."""
    connection = connected()
    if connection is None:
        sys.stdout.write(f"Cannot find MPS control daemon process (FAKE, in {PIPES})\n")
        sys.exit(1)
    with connection, connection.makefile() as stream:
        connection.sendall(sys.stdin.buffer.read())
        connection.shutdown(socket.SHUT_WR)
        sys.stdout.write(stream.read())


def main() -> None:
    """Serve with -f or -d; send without flags."""
    flags = sys.argv[1:]
    if flags == ["-d"] and os.fork() == 0:
        os.setsid()
        serve()
    elif flags == ["-f"]:
        serve()
    elif not flags:
        send()


if __name__ == "__main__":
    main()
