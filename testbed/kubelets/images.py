"""Container images without a registry, such as one static busybox under two names.

What belongs here: archives for ``ctr images import``. What does not: importing them.
"""

import hashlib
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from release.archives import ArchiveFile, tar
from testbed.kubelets.files import PAUSE_IMAGE

BUSYBOX_IMAGE = "docker.io/testbed/busybox:1"
"""The image ``testbed/busybox:1`` of pods: a shell and the usual commands in /bin, nothing else."""
PAUSE = ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"]
"""Ends on SIGTERM, as Kubernetes' own: systemd waits 90 s for other processes before a host reboots."""
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_APPLETS = "cat cp date dd df echo env false grep hostname id ip kill ls mkdir mount nc nslookup ps"
_MORE = "pwd readlink rm sed sh sleep sort stat tail test touch true uname vi wc wget"
_FOLDERS = ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "var")


def archive(busybox: Path) -> bytes:
    """Return a tar in the format of ``docker save`` with the busybox and the pause image."""
    layer = {
        **{name: ArchiveFile(is_folder=True) for name in _FOLDERS},
        **{f"bin/{name}": ArchiveFile(link="busybox") for name in f"{_APPLETS} {_MORE}".split()},
        "bin/busybox": ArchiveFile(busybox.read_bytes(), is_program=True),
    }
    env = ["PATH=/bin:/usr/bin"]
    configs = {BUSYBOX_IMAGE: {"Env": env, "Cmd": ["/bin/sh"]}, PAUSE_IMAGE: {"Env": env, "Cmd": PAUSE}}
    return saved(layer, configs)


def saved(layer: Mapping[str, ArchiveFile], configs: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return a tar in the format of ``docker save``: images of one layer, name → what they run."""
    content = tar(layer)
    common = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]},
    }
    files = {"layer.tar": content}
    manifest = []
    for number, (name, config) in enumerate(configs.items()):
        files[f"config-{number}.json"] = json.dumps({**common, "config": config}).encode()
        manifest.append({"Config": f"config-{number}.json", "RepoTags": [name], "Layers": ["layer.tar"]})
    files["manifest.json"] = json.dumps(manifest).encode()
    return tar({name: ArchiveFile(each) for name, each in files.items()})
