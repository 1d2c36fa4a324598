"""Container images without a registry: one static busybox under two names.

What belongs here: the archive for ``ctr images import``. What does not: importing it.
"""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

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
    layer = _layer(busybox)
    digest = hashlib.sha256(layer).hexdigest()
    commands = {BUSYBOX_IMAGE: ["/bin/sh"], PAUSE_IMAGE: PAUSE}
    files = {"layer.tar": layer}
    manifest = []
    for number, (name, command) in enumerate(commands.items()):
        config = f"config-{number}.json"
        files[config] = json.dumps(_config(command, digest)).encode()
        manifest.append({"Config": config, "RepoTags": [name], "Layers": ["layer.tar"]})
    files["manifest.json"] = json.dumps(manifest).encode()
    return _tar(files)


def _config(command: list[str], digest: str) -> dict[str, Any]:
    return {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": ["PATH=/bin:/usr/bin"], "Cmd": command},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }


def _layer(busybox: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in _FOLDERS:
            tar.addfile(_entry(folder, tarfile.DIRTYPE))
        content = busybox.read_bytes()
        tar.addfile(_entry("bin/busybox", tarfile.REGTYPE, size=len(content)), io.BytesIO(content))
        for name in f"{_APPLETS} {_MORE}".split():
            tar.addfile(_entry(f"bin/{name}", tarfile.SYMTYPE, link="busybox"))
    return buffer.getvalue()


def _entry(name: str, kind: bytes, *, size: int = 0, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.size, entry.linkname, entry.mode = kind, size, link, 0o755
    return entry


def _tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            tar.addfile(_entry(name, tarfile.REGTYPE, size=len(content)), io.BytesIO(content))
    return buffer.getvalue()
