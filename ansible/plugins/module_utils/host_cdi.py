"""CDI specifications of a host: what decides whether containers get their GPUs by CDI.

Runs on the target: standard library only, Python 2.7 to 3.x. Without a YAML parser, only the lines of YAML
that ``nvidia-ctk cdi generate`` writes are read. What does not belong here: the decision (``device_lists``).
"""

from __future__ import absolute_import, division, print_function

import json
import re

from ansible_collections.gpushare.nodes.plugins.module_utils.host_system import names_in, read_text

__metaclass__ = type

FOLDERS = ("etc/cdi", "var/run/cdi")
_HEAD = r"""^%s:[ ]*["']?([^"'\s#]+)"""
_VERSION = re.compile(_HEAD % "cdiVersion", re.MULTILINE)
_KIND = re.compile(_HEAD % "kind", re.MULTILINE)
_DEVICE = re.compile(r"""^(?:- |  )name:[ ]*["']?([^"'\s#]+)""", re.MULTILINE)
_HIDDEN = re.compile(r"""NVIDIA_VISIBLE_DEVICES=(?:void|none)?["']?[ ]*$""", re.MULTILINE)


def specifications(root):
    """Return the specifications, each as the arguments of ``gpushare.model.cdi.CdiSpec``."""
    found = []
    for priority, folder in enumerate(FOLDERS):
        for name in names_in(root, folder):
            text = read_text(root, folder, name) or ""
            spec = None
            if name.endswith(".json"):
                spec = _of_json(text)
            elif name.endswith(".yaml"):
                spec = _of_yaml(text)
            if spec:
                found.append(dict(spec, path="/" + folder + "/" + name, priority=priority))
    return found


def _of_json(text):
    try:
        document = json.loads(text)
        edits = document.get("containerEdits") or {}
        return {
            "version": document["cdiVersion"],
            "kind": document["kind"],
            "names": sorted(each["name"] for each in document["devices"]),
            "hides_variable": any(_HIDDEN.match(each) for each in edits.get("env") or []),
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _of_yaml(text):
    version, kind = _VERSION.search(text), _KIND.search(text)
    if not version or not kind:
        return None
    return {
        "version": version.group(1),
        "kind": kind.group(1),
        "names": sorted(_DEVICE.findall(text)),
        "hides_variable": bool(_HIDDEN.search(text)),
    }
