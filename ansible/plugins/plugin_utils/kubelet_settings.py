"""What must change in a kubelet's settings for the policies and reserves that were asked for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Settings = Mapping[str, Any]

DEFAULTS: Final[Settings] = {
    "cpuManagerPolicy": "none",
    "topologyManagerPolicy": "none",
    "memoryManagerPolicy": "None",
}
"""What the kubelet does where its file says nothing."""
_NEEDS: Final = {
    "cpuManagerPolicyOptions": ("cpuManagerPolicy", "none"),
    "reservedMemory": ("memoryManagerPolicy", "None"),
}
"""Settings with which the kubelet refuses that value of another setting."""


def changes(current: Settings, asked: Settings) -> dict[str, Any]:
    """Return what to merge into ``current``; None removes a setting.

    An empty value in ``asked`` leaves the setting alone, and so does the value that the kubelet has anyway. A
    policy that is turned off takes its options with it.
    """
    wanted = {key: value for key, value in asked.items() if value}
    set_ = {key: value for key, value in wanted.items() if value != current.get(key, DEFAULTS.get(key))}
    gone = [key for key, (policy, off) in _NEEDS.items() if wanted.get(policy) == off and key in current]
    return {**dict.fromkeys(gone), **set_}


def effective(settings: Settings) -> dict[str, Any]:
    """Return the settings with the kubelet's defaults for the policies that are not set."""
    return {**DEFAULTS, **settings}
