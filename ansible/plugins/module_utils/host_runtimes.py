"""Settings of container runtimes and of NVIDIA's toolkit for GPUs in containers, from their files.

Runs on the target: standard library only, Python 2.7 to 3.x. Without a TOML parser, only table headers,
booleans at the top level and strings on one line are read. What does not belong here: answers of daemons.
"""

from __future__ import absolute_import, division, print_function

import json
import re

from ansible_collections.gpushare.nodes.plugins.module_utils.host_operator import TOOLKIT
from ansible_collections.gpushare.nodes.plugins.module_utils.host_system import names_in, read_text

__metaclass__ = type

TOOLKIT_CONFIGS = (
    TOOLKIT.lstrip("/") + "/.config/nvidia-container-runtime/config.toml",
    "etc/nvidia-container-runtime/config.toml",
)
"""The settings of the GPU Operator's toolkit, which runs if it is installed, and those of the package."""
TOOLKIT_SETTINGS = {
    "volume_mounts": "accept-nvidia-visible-devices-as-volume-mounts",
    "envvar_unprivileged": "accept-nvidia-visible-devices-envvar-when-unprivileged",
}
_TOML = {
    "containerd": ("etc/containerd/config.toml", "etc/containerd/conf.d"),
    "cri-o": ("etc/crio/crio.conf", "etc/crio/crio.conf.d"),
}
_CDI_FOLDERS = ("etc/cdi", "var/run/cdi")
_NVIDIA_TABLE = re.compile(r"""^[ \t]*\[[^\]#]*\bruntimes\.["']?nvidia["']?\][ \t]*(?:#.*)?$""", re.MULTILINE)


def toolkit_settings(root):
    """Return the two settings of the toolkit as booleans, and its ``mode``; None if absent or a comment."""
    text = next((text for text in (read_text(root, path) for path in TOOLKIT_CONFIGS) if text), "")
    settings = dict((name, top_level_boolean(text, key)) for name, key in TOOLKIT_SETTINGS.items())
    return dict(settings, mode=_string_in(text, "nvidia-container-runtime", "mode"))


def top_level_boolean(text, key):
    """Return the boolean ``key`` before the first table of TOML text, or None."""
    for line in map(type(text).strip, text.splitlines()):
        if line.startswith("["):
            return None
        name, equals, value = line.partition("=")
        if equals and name.strip() == key:
            word = value.split("#")[0].strip()
            return {"true": True, "false": False}.get(word)
    return None


def _string_in(text, table, key):
    """Return the string ``key`` of a table of TOML text, or None."""
    here = None
    for line in map(type(text).strip, text.splitlines()):
        if line.startswith("["):
            here = line.split("#")[0].strip()
        name, equals, value = line.partition("=")
        if here == "[" + table + "]" and equals and name.strip() == key:
            return value.split("#")[0].strip().strip("\"'")
    return None


def nvidia_in_files(root, more=None):
    """Return runtime to whether its files have NVIDIA's runtime, and ``cdi``: whether a CDI file exists.

    ``more`` are runtimes to paths of further files.
    """
    more = dict((name, path.lstrip("/")) for name, path in (more or {}).items())
    found = {name: _in_toml(root, more.get(name), *paths) for name, paths in _TOML.items()}
    texts = [read_text(root, path) for path in ("etc/docker/daemon.json", more.get("docker")) if path]
    found["docker"] = any(_in_daemon_json(text) for text in texts)
    found["cdi"] = any(
        name.startswith("nvidia") for folder in _CDI_FOLDERS for name in names_in(root, folder)
    )
    return found


def _in_toml(root, more, path, folder):
    texts = [read_text(root, path)] + ([read_text(root, more)] if more else [])
    texts += [read_text(root, folder, name) for name in names_in(root, folder)]
    return any(_NVIDIA_TABLE.search(text) for text in texts if text)


def _in_daemon_json(text):
    try:
        return "nvidia" in (json.loads(text or "{}").get("runtimes") or {})
    except (ValueError, AttributeError):
        return False
