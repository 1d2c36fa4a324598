"""Settings of container runtimes and of NVIDIA's toolkit for GPUs in containers, from their files.

Runs on the target: standard library only, Python 2.7 to 3.x. Without a TOML parser, only table headers and
booleans at the top level are read. What does not belong here: answers of daemons.
"""

from __future__ import absolute_import, division, print_function

import json
import re

from ansible_collections.gpushare.nodes.plugins.module_utils.host_system import names_in, read_text

__metaclass__ = type

TOOLKIT_CONFIG = "etc/nvidia-container-runtime/config.toml"
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
    """Return the two settings of the toolkit as booleans, None if a line is absent or a comment."""
    text = read_text(root, TOOLKIT_CONFIG) or ""
    return {name: top_level_boolean(text, key) for name, key in TOOLKIT_SETTINGS.items()}


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


def nvidia_in_files(root):
    """Return runtime to whether its files have NVIDIA's runtime, and ``cdi``: whether a CDI file exists."""
    found = {name: _in_toml(root, *paths) for name, paths in _TOML.items()}
    found["docker"] = _in_daemon_json(read_text(root, "etc/docker/daemon.json"))
    found["cdi"] = any(
        name.startswith("nvidia") for folder in _CDI_FOLDERS for name in names_in(root, folder)
    )
    return found


def _in_toml(root, path, folder):
    texts = [read_text(root, path)]
    texts += [read_text(root, folder, name) for name in names_in(root, folder)]
    return any(_NVIDIA_TABLE.search(text) for text in texts if text)


def _in_daemon_json(text):
    try:
        return "nvidia" in (json.loads(text or "{}").get("runtimes") or {})
    except (ValueError, AttributeError):
        return False
