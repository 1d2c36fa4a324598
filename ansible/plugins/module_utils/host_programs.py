"""What programs and services of a host answer: versions, states, and what the card's tools see.

Runs on the target: standard library only, Python 2.7 to 3.x. What does not belong here: files that
they read. Nothing here changes a host. Every program gets a deadline, since those that talk to a
broken driver may never end.
"""

from __future__ import absolute_import, division, print_function

import json
import re

__metaclass__ = type

DEADLINE_S = 20
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*")
VERSIONS = (
    ("containerd", ("containerd", "--version")),
    ("cri-dockerd", ("cri-dockerd", "--version")),
    ("cri-o", ("crio", "--version")),
    # The daemon's: the command line tool is a package of its own, and often newer.
    ("docker", ("dockerd", "--version")),
    ("kubelet", ("kubelet", "--version")),
    ("nvidia-ctk", ("nvidia-ctk", "--version")),
    ("nvidia-module", ("modinfo", "-F", "version", "nvidia")),
)
_UNIT_FIELDS = ("Id", "LoadState", "ActiveState", "MainPID")
UNITS = ("containerd", "cri-docker", "crio", "docker", "kubelet", "nvidia-persistenced")


class Programs:
    """``find`` gives a program's path or None, ``run`` takes words and gives ``(status, out, err)``."""

    def __init__(self, find, run):
        self._find = find
        self._run = run

    def versions(self):
        """Return the version of each program in ``VERSIONS``, None where it is absent or says none."""
        return dict((name, self._version(command)) for name, command in VERSIONS)

    def _version(self, command):
        status, out, _ = self.ask(*command)
        found = _VERSION.search(out) if status == 0 else None
        return found.group(0) if found else None

    def units(self):
        """Return ``state`` and ``pid`` (0 for none) of the units in ``UNITS`` that the host has."""
        command = ["systemctl", "show"]
        for name in _UNIT_FIELDS:
            command += ["-p", name]
        command += [name + ".service" for name in UNITS]
        status, out, _ = self.ask(*command)
        return parse_units(out) if status == 0 else {}

    def smi(self):
        """Return ``version``, ``cards`` and ``error`` of nvidia-smi: what the driver itself says."""
        status, out, err = self.ask("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        lines = [line.strip() for line in out.splitlines() if line.strip()]
        if status or not lines:
            return {"version": None, "cards": 0, "error": brief(out, err) or "nvidia-smi said nothing"}
        return {"version": lines[0], "cards": len(lines), "error": None}

    def docker(self):
        """Return ``default`` and ``runtimes`` of the docker daemon that runs; None where none answers."""
        template = '{"default": {{json .DefaultRuntime}}, "runtimes": {{json .Runtimes}}}'
        status, out, _ = self.ask("docker", "info", "--format", template)
        try:
            said = json.loads(out) if status == 0 else None
            return said and {"default": said["default"], "runtimes": sorted(said["runtimes"] or {})}
        except (ValueError, KeyError, TypeError):
            return None

    def container_cli(self):
        """Return ``cards`` and ``error`` of nvidia-container-cli: what a container would be given.

        None where the program is not there: hosts that use CDI need none.
        """
        if not self._find("nvidia-container-cli"):
            return None
        status, out, err = self.ask("nvidia-container-cli", "list")
        cards = [line for line in out.splitlines() if re.match(r"/dev/nvidia\d+$", line.strip())]
        return {"cards": len(cards), "error": brief(out, err) if status else None}

    def ask(self, program, *words):
        """Return status, output and errors; 127 where the program is not there, 124 past the deadline."""
        path = self._find(program)
        if not path:
            return 127, "", program + " is not installed"
        return self._run(["timeout", "-k", "2", str(DEADLINE_S), path] + list(words))


def parse_units(text):
    """Return the units in the blocks that ``systemctl show`` prints, those not found left out."""
    units = {}
    for block in text.strip().split("\n\n"):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields.get("LoadState") not in (None, "not-found"):
            name = fields.get("Id", "").replace(".service", "")
            units[name] = {"state": fields.get("ActiveState", ""), "pid": int(fields.get("MainPID") or 0)}
    return units


def brief(out, err):
    """Return the first line that a failed program said, cut to what a table takes."""
    lines = [line.strip() for line in (err + "\n" + out).splitlines() if line.strip()]
    return lines[0][:200] if lines else ""
