"""Reports of host_report and requirements of validate, for tests that change one fact at a time."""

import copy
from typing import Any

import yaml

from tools.role_docs import ROLES


def report(**changes: Any) -> dict[str, Any]:
    """A report without problems: Debian 12 with two V100, containerd and kubelet 1.36.

    The name of a change is a path: ``programs__docker="28.2.2"``.
    """
    made = copy.deepcopy(_CORRECT)
    for path, value in changes.items():
        *folders, last = path.split("__")
        target = made
        for folder in folders:
            target = target.setdefault(folder.replace("_", "-") if folder in _DASHED else folder, {})
        target[last.replace("_", "-") if last in _DASHED else last] = value
    return made


_DASHED = {"cri_dockerd", "cri_o", "cri_docker", "nvidia_ctk", "nvidia_module", "nvidia_persistenced"}
V100 = {"slot": "0000:3b:00.0", "device": "1db6", "name": None, "driver": "nvidia"}
TITAN_XP = {"slot": "0000:af:00.0", "device": "1b02", "name": "TITAN Xp", "driver": None}
CDI_SPEC = {
    "path": "/var/run/cdi/nvidia.yaml",
    "priority": 1,
    "version": "0.5.0",
    "kind": "nvidia.com/gpu",
    "names": ["0", "1", "GPU-a", "GPU-b", "all"],
    "hides_variable": True,
}
CDI: dict[str, Any] = {"cdi": [CDI_SPEC], "programs__containerd": "2.2.1", "runtimes__cdi": True}
"""Changes for a host whose containers get their GPUs by CDI."""
_CORRECT: dict[str, Any] = {
    "os": {"id": "debian", "version": "12", "name": "Debian GNU/Linux 12 (bookworm)", "like": ""},
    "kernel": {"release": "6.1.0-40-amd64", "headers": True},
    "python": "3.11.2",
    "apt_library": True,
    "disk": {"/": {"free_mib": 50_000, "size_mib": 90_000}, "/var": {"free_mib": 50_000, "size_mib": 90_000}},
    "gpus": [V100, {**V100, "slot": "0000:5e:00.0"}],
    "nvswitches": [],
    "mig": [],
    "driver": {"loaded": "580.65.06", "nouveau": False},
    "operator": {"driver": False, "toolkit": False},
    "secure_boot": {"enabled": None, "module_key": None},
    "selinux": "disabled",
    "cgroup": "v2",
    "programs": {
        "containerd": "1.7.27",
        "cri-dockerd": None,
        "cri-o": None,
        "docker": None,
        "kubelet": "1.36.0",
        "nvidia-ctk": "1.17.8",
        "nvidia-module": "580.65.06",
    },
    "services": {
        "containerd": {"state": "active", "pid": 2},
        "kubelet": {"state": "active", "pid": 3},
    },
    "kubelet": {
        "cpu_manager_policy": None,
        "cpu_manager_state": "none",
        "runtime_endpoint": "unix:///run/containerd/containerd.sock",
    },
    "toolkit": {"volume_mounts": True, "envvar_unprivileged": False, "mode": None},
    "runtimes": {"containerd": True, "docker": False, "cri-o": False, "cdi": False},
    "cdi": [],
    "regions_mounted": True,
    "library_mount": {"point": "/", "options": ["rw", "relatime"]},
    "asked": {
        "smi": {"version": "580.65.06", "cards": 2, "error": None},
        "docker": None,
        "container_cli": {"cards": 2, "error": None},
    },
}
_DEFAULTS = yaml.safe_load((ROLES / "validate/defaults/main.yml").read_text())
_OPTIONS = (
    "node",
    "driver_minimum",
    "driver_version",
    "driver_state",
    "container_runtime",
    "container_runtime_state",
    "container_runtime_engine",
    "container_runtime_engine_service",
    "library_folder",
    "device_list_strategy",
    "services",
    "labels",
)
REQUIRED: dict[str, Any] = {
    **{name: _DEFAULTS[f"validate_{name}"] for name in _OPTIONS},
    "node_name": "gpu-1",
    "cluster": True,
    "plugins": [],
}
"""The arguments of ``validation.Requirements`` for the node gpu-1, with the defaults of the role."""
