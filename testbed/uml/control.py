"""Runs commands on a machine with its own kernel, for the testbed that started it.

Run as a script: ``control.py ADDRESS PORT KEY_FILE ROOT``, where ROOT is the root folder of commands. Each
connection is one command: a JSON line with the key, argv and stdin, then one with the result. It imports
nothing of the testbed, because it starts at every boot.
"""

import base64
import hmac
import json
import os
import socketserver
import subprocess
import sys
from pathlib import Path
from typing import Any


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        asked = json.loads(self.rfile.readline())
        if not hmac.compare_digest(asked["key"], Path(sys.argv[3]).read_text()):
            return
        self.wfile.write(json.dumps(_answer(asked)).encode() + b"\n")


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        done = subprocess.run(  # noqa: S603 - the testbed's command
            asked["argv"],
            input=base64.b64decode(asked["stdin"]),
            capture_output=True,
            check=False,
            preexec_fn=_enter_root,
        )
    except OSError as error:
        return {"code": 127, "out": "", "err": str(error)}
    out = base64.b64encode(done.stdout).decode()
    return {"code": done.returncode, "out": out, "err": done.stderr.decode(errors="replace")}


def _enter_root() -> None:
    os.chroot(sys.argv[4])
    os.chdir("/")


if __name__ == "__main__":
    _Server((sys.argv[1], int(sys.argv[2])), _Handler).serve_forever()
