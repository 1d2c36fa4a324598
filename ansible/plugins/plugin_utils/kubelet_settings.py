"""Changes of the kubelet settings for the requested policies and reserves. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Settings = Mapping[str, Any]

DEFAULTS: Final[Settings] = {
    "cpuManagerPolicy": "none",
    "topologyManagerPolicy": "none",
    "memoryManagerPolicy": "None",
}
"""Defaults of the kubelet."""
_NEEDS: Final = {
    "cpuManagerPolicyOptions": ("cpuManagerPolicy", "none"),
    "reservedMemory": ("memoryManagerPolicy", "None"),
}
"""Settings that the kubelet does not accept with that value of another setting."""


def changes(current: Settings, requested: Settings) -> dict[str, Any]:
    """Return what to merge into ``current``; None removes a setting.

    An empty value in ``requested`` keeps the setting, and so does the current or default value. A policy that
    is turned off also removes its options.
    """
    wanted = {key: value for key, value in requested.items() if value}
    set_ = {key: value for key, value in wanted.items() if value != current.get(key, DEFAULTS.get(key))}
    gone = [key for key, (policy, off) in _NEEDS.items() if wanted.get(policy) == off and key in current]
    return {**dict.fromkeys(gone), **set_}


def effective(settings: Settings) -> dict[str, Any]:
    """Return the settings with the kubelet's defaults for the policies that are not set."""
    return {**DEFAULTS, **settings}
