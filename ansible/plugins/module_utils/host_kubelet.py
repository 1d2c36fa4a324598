"""Settings of the kubelet of a host, from its flags, configuration files and state file.

Runs on the target: standard library only, Python 2.7 to 3.x. What does not belong here: versions and
services, and checks of settings. The host may have no YAML parser; the settings are scalars at the top level,
which need none.

Order of precedence: flags over drop-in files over the file,
https://kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file/.
"""

from __future__ import absolute_import, division, print_function

import json
import os
import re
import shlex

from ansible_collections.gpushare.nodes.plugins.module_utils.host_system import (
    assignments,
    names_in,
    read_text,
)

__metaclass__ = type

CONFIG = "/var/lib/kubelet/config.yaml"
_STATE = "var/lib/kubelet/cpu_manager_state"
_FLAG_FILES = ("var/lib/kubelet/kubeadm-flags.env", "etc/default/kubelet", "etc/sysconfig/kubelet")
_FLAG_VARIABLES = ("KUBELET_KUBEADM_ARGS", "KUBELET_EXTRA_ARGS")
_SETTINGS = (
    ("cpu_manager_policy", "cpuManagerPolicy", "cpu-manager-policy"),
    ("runtime_endpoint", "containerRuntimeEndpoint", "container-runtime-endpoint"),
)
_SCALAR = re.compile(r"""^["']?(\w+)["']?[ \t]*:[ \t]*["']?([^"'#\s]+)["']?[ \t]*(?:#.*)?$""", re.MULTILINE)


def kubelet_settings(root, pid):
    """Return ``cpu_manager_policy``, ``cpu_manager_state``, ``runtime_endpoint``: text, or None if unset.

    ``pid`` is the process of the kubelet; if it is 0, the flags are read from the files of its unit.
    """
    flags = _flags(root, pid)
    config = {}
    for path in _config_files(root, flags):
        config.update(top_level_scalars(read_text(path) or ""))
    settings = dict((name, flags.get(flag) or config.get(key)) for name, key, flag in _SETTINGS)
    settings["cpu_manager_state"] = _policy_in_state(read_text(root, _STATE))
    return settings


def _flags(root, pid):
    command = read_text(root, "proc", str(pid), "cmdline") if pid else None
    if command:
        return flag_values(command.split("\0"))
    values = {}
    for path in _FLAG_FILES:
        variables = assignments(read_text(root, path))
        for name in _FLAG_VARIABLES:
            values.update(flag_values(_words(variables.get(name, ""))))
    return values


def _words(text):
    try:
        return shlex.split(text)
    except ValueError:
        # An unclosed quotation mark; the unit of the kubelet also splits such text at spaces.
        return text.split()


def flag_values(words):
    """Return flag to value, from ``--flag=value`` and ``--flag value``."""
    values = {}
    for word, following in zip(words, list(words[1:]) + [""]):
        if word.startswith("--"):
            flag, equals, value = word[2:].partition("=")
            values[flag] = value if equals else following
    return values


def _config_files(root, flags):
    yield os.path.join(root, flags.get("config", CONFIG).lstrip("/"))
    folder = flags.get("config-dir")
    if folder:
        folder = os.path.join(root, folder.lstrip("/"))
        for name in names_in(folder):
            if name.endswith(".conf"):
                yield os.path.join(folder, name)


def top_level_scalars(text):
    """Return the scalars at the top level of a YAML or JSON mapping, as text."""
    try:
        pairs = json.loads(text).items()
    except (ValueError, AttributeError):
        return dict(_SCALAR.findall(text))
    return dict((key, str(value)) for key, value in pairs if not isinstance(value, (dict, list)))


def _policy_in_state(text):
    try:
        return json.loads(text or "{}").get("policyName")
    except (ValueError, AttributeError):
        return None
