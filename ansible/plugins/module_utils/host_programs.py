"""Output of programs and services of a host: versions, states, and the GPUs that NVIDIA's tools report.

Runs on the target: standard library only, Python 2.7 to 3.x. What does not belong here: settings files.
Nothing here changes the host. Every program has a timeout, because it may hang in a broken driver.
"""

from __future__ import absolute_import, division, print_function

import json
import re

from ansible_collections.gpushare.nodes.plugins.module_utils.host_operator import DRIVER_ROOT, TOOLKIT

__metaclass__ = type

TIMEOUT_S = 20
_TIMED_OUT = (124, -9)
"""Statuses of timeout(1): the program ended at SIGTERM, or SIGKILL ended both."""
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)*")
VERSIONS = (
    ("containerd", ("containerd", "--version")),
    ("cri-dockerd", ("cri-dockerd", "--version")),
    ("cri-o", ("crio", "--version")),
    # The daemon: its command line tool is a separate package and often newer.
    ("docker", ("dockerd", "--version")),
    ("kubelet", ("kubelet", "--version")),
    ("nvidia-ctk", ("nvidia-ctk", "--version")),
    ("nvidia-module", ("modinfo", "-F", "version", "nvidia")),
)
_LOCAL = "/usr/local/bin"
"""Kubespray and archives of containerd install there; PATH of sudo on Red Hat systems omits it."""
_UNIT_FIELDS = ("Id", "LoadState", "ActiveState", "MainPID")
UNITS = (
    "containerd",
    "cri-docker",
    "crio",
    "docker",
    "kubelet",
    "nvidia-fabricmanager",
    "nvidia-persistenced",
)
MODULE_KEYS = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub")
"""Certificates of the keys that DKMS signs modules with, on Ubuntu and elsewhere."""


class Programs:
    """Runs programs. ``find`` returns a path or None; ``run`` returns ``(status, out, err)`` of a command.

    ``driver_root`` is whether the driver is in a container of the GPU Operator.
    """

    def __init__(self, find, run, driver_root):
        self._find = find
        self._run = run
        self._driver_root = driver_root

    def versions(self, paths=None):
        """Return the version of each program in ``VERSIONS``, None if it is absent or reports none.

        ``paths`` are names to paths of programs that are not in PATH.
        """
        paths = paths or {}
        commands = dict((name, (paths.get(name, command[0]),) + command[1:]) for name, command in VERSIONS)
        return dict((name, self._version(command)) for name, command in commands.items())

    def _version(self, command):
        status, out, _ = self.output(*command)
        found = _VERSION.search(out) if status == 0 else None
        return found.group(0) if found else None

    def units(self, more=()):
        """Return ``state`` and ``pid`` (0 if none) of the host's units among ``UNITS`` and ``more``."""
        command = ["systemctl", "show"]
        for name in _UNIT_FIELDS:
            command += ["-p", name]
        command += [name + ".service" for name in UNITS + tuple(more)]
        status, out, _ = self.output(*command)
        return parse_units(out) if status == 0 else {}

    def smi(self):
        """Return ``version``, ``cards`` (a number) and ``error`` of nvidia-smi."""
        status, out, err = self._query_gpus("driver_version")
        lines = [line.strip() for line in out.splitlines() if line.strip()]
        if status or not lines:
            return {"version": None, "cards": 0, "error": brief(out, err) or "nvidia-smi printed nothing"}
        return {"version": lines[0], "cards": len(lines), "error": None}

    def mig_slots(self):
        """Return the PCI slots of GPUs in MIG mode, as sysfs has them; None if nvidia-smi does not say.

        It knows the mode from driver 450 on, and prints ``[N/A]`` for GPUs without MIG.
        """
        status, out, _ = self._query_gpus("pci.bus_id,mig.mode.current")
        return parse_mig(out) if status == 0 else None

    def _query_gpus(self, fields):
        command = ("nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader")
        if self._driver_root and not self._find("nvidia-smi"):
            command = ("chroot", DRIVER_ROOT) + command
        return self.output(*command)

    def enrolled_key(self):
        """Return the certificate of DKMS that the firmware trusts, None if there is none.

        mokutil reports it as "already enrolled"; its status differs between versions.
        """
        for path in MODULE_KEYS:
            _, out, err = self.output("mokutil", "--test-key", path)
            if "is already enrolled" in out + err:
                return path
        return None

    def docker(self):
        """Return ``default`` and ``runtimes`` of the running docker daemon, None if it does not answer."""
        template = '{"default": {{json .DefaultRuntime}}, "runtimes": {{json .Runtimes}}}'
        status, out, _ = self.output("docker", "info", "--format", template)
        try:
            info = json.loads(out) if status == 0 else None
            return info and {"default": info["default"], "runtimes": sorted(info["runtimes"] or {})}
        except (ValueError, KeyError, TypeError):
            return None

    def container_cli(self):
        """Return ``cards`` (a number) and ``error`` of nvidia-container-cli, for GPUs in containers.

        None without the program, which hosts with CDI do not need.
        """
        if not self._find("nvidia-container-cli"):
            return None
        status, out, err = self.output("nvidia-container-cli", "list")
        cards = [line for line in out.splitlines() if re.match(r"/dev/nvidia\d+$", line.strip())]
        return {"cards": len(cards), "error": brief(out, err) if status else None}

    def output(self, program, *words):
        """Return status, output and errors; status 127 without the program, 124 or -9 after the timeout."""
        path = self._find(program)
        if not path:
            return 127, "", program + " is not installed"
        status, out, err = self._run(["timeout", "-k", "2", str(TIMEOUT_S), path] + list(words))
        if status in _TIMED_OUT:
            err = "{0} did not end within {1} s".format(program, TIMEOUT_S)
        return status, out, err


def folders(program):
    """Return where a program may be beside the folders of PATH."""
    return ([TOOLKIT] if program == "nvidia-ctk" else []) + [_LOCAL]


def parse_units(text):
    """Return the units in the output of ``systemctl show``, without those that do not exist."""
    units = {}
    for block in text.strip().split("\n\n"):
        fields = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if fields.get("LoadState") not in (None, "not-found"):
            name = fields.get("Id", "").replace(".service", "")
            units[name] = {"state": fields.get("ActiveState", ""), "pid": int(fields.get("MainPID") or 0)}
    return units


def parse_mig(text):
    """Return the slots of ``00000000:3B:00.0, Enabled``: 0000:3b:00.0."""
    enabled = re.findall(r"^([0-9A-Fa-f]+):(\S+), *Enabled *$", text, re.MULTILINE)
    return ["{0:04x}:{1}".format(int(domain, 16), slot.lower()) for domain, slot in enabled]


def brief(out, err):
    """Return the first line of the output of a failed program, at most 200 characters."""
    lines = [line.strip() for line in (err + "\n" + out).splitlines() if line.strip()]
    return lines[0][:200] if lines else ""
