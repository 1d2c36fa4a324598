#!/usr/bin/python
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Reads the state of a host for the roles preflight and validate, in one call."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: host_report
short_description: Report the state of a host that matters for GPU sharing
version_added: 0.1.0
description:
  - Gathers operating system, kernel, disks, NVIDIA GPUs on the PCI bus, driver, cgroups, container
    runtimes, kubelet and the settings of NVIDIA's container toolkit, in one call.
  - Changes nothing and has no checks.
options:
  paths:
    description: Folders; the free space of their file systems is reported.
    type: list
    elements: path
    default: [/, /var]
  deep:
    description:
      - Also run the programs that query the driver and daemons, C(nvidia-smi), C(docker info) and
        C(nvidia-container-cli). Without a persistence daemon each may take seconds.
    type: bool
    default: false
  mig:
    description:
      - Also ask a loaded driver which GPUs are in MIG mode, with C(nvidia-smi). Implied by O(deep).
    type: bool
    default: false
  engine:
    description: The container runtime that the options with this prefix describe.
    type: str
    choices: [containerd, docker, crio]
    default: containerd
  engine_program:
    description: Path of its program, if another product provides it, as k3s and RKE2 do.
    type: str
    default: ""
  engine_service:
    description: A further service to report, which runs it, without C(.service).
    type: str
    default: ""
  engine_config:
    description: A further settings file of it.
    type: str
    default: ""
  library_folder:
    description: Folder of the isolation library, whose mount is reported; it may not exist yet.
    type: path
    default: /var/lib/gpushare
attributes:
  check_mode:
    description: Runs the same in check mode.
    support: full
author:
  - The gpushare authors
"""

EXAMPLES = r"""
- name: Gather the report of the host
  gpushare.nodes.host_report:
    paths: [/, /var]
  register: report
"""

RETURN = r"""
report:
  description: The state. Missing values are null, an empty list or an empty dictionary.
  returned: always
  type: dict
  contains:
    os: {description: "id, version, name and like of os-release(5).", type: dict, returned: always}
    kernel: {description: "release, and headers, whether modules can be built.", type: dict, returned: always}
    python: {description: The version of Python that ran the module., type: str, returned: always}
    apt_library:
      description: Whether Python's library of apt is installed; null on a host without apt.
      type: bool
      returned: always
    disk: {description: "free_mib and size_mib of each path.", type: dict, returned: always}
    gpus: {description: "slot, device, name and driver of each NVIDIA GPU.", type: list, returned: always}
    mig:
      description: The PCI slots of GPUs in MIG mode; null if no loaded driver could be asked.
      type: list
      returned: always
    nvswitches: {description: The PCI slots of NVSwitches., type: list, returned: always}
    driver: {description: "loaded, the version in the kernel, and nouveau.", type: dict, returned: always}
    operator: {description: "driver and toolkit, whether of the GPU Operator.", type: dict, returned: always}
    secure_boot:
      description: >-
        enabled, null without UEFI, and module_key, the certificate of DKMS that is enrolled, or null.
      type: dict
      returned: always
    selinux: {description: "enforcing, permissive or disabled.", type: str, returned: always}
    cgroup: {description: "v2, v1, hybrid or none.", type: str, returned: always}
    programs: {description: The version of each program or null., type: dict, returned: always}
    services: {description: State and main process of each unit that exists., type: dict, returned: always}
    kubelet: {description: CPU manager policy and runtime endpoint., type: dict, returned: always}
    toolkit: {description: "volume_mounts, envvar_unprivileged, mode.", type: dict, returned: always}
    runtimes: {description: Runtimes with NVIDIA's runtime in their settings., type: dict, returned: always}
    regions_mounted:
      description: Whether a separate filesystem is mounted for limits and regions of containers.
      type: bool
      returned: always
    library_mount:
      description: Mount point and options of the mount that the folder of the library is on; null if unknown.
      type: dict
      returned: always
    asked: {description: "smi, docker and container_cli; null unless deep.", type: dict, returned: always}
"""

import platform

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpushare.nodes.plugins.module_utils import (
    host_cdi,
    host_gpus,
    host_kubelet,
    host_operator,
    host_runtimes,
    host_system,
)
from ansible_collections.gpushare.nodes.plugins.module_utils.host_programs import Programs, folders

REGIONS = "/run/gpushare"
LIBRARIES = "/var/lib/gpushare"


def gather(root, programs, paths, deep, engine=None, library_folder=LIBRARIES, mig=None):
    """Return the report of the host whose files are under ``root``.

    ``mig`` asks for GPUs in MIG mode, as ``deep`` does. ``engine`` has the options of the module for an
    engine of another product, without their prefix.
    """
    engine = engine or {}
    name = "cri-o" if engine.get("name") == "crio" else engine.get("name")
    driver = host_gpus.kernel_driver(root)
    services = programs.units([engine["service"]] if engine.get("service") else [])
    return {
        "os": host_system.operating_system(root),
        "kernel": host_system.kernel(root, platform.release()),
        "python": platform.python_version(),
        "apt_library": host_system.apt_library(root),
        "disk": host_system.disk(root, paths),
        "gpus": host_gpus.pci_gpus(root),
        "nvswitches": host_gpus.nvswitches(root),
        "mig": programs.mig_slots() if driver["loaded"] and (deep or mig) else None,
        "driver": driver,
        "operator": host_operator.installed(root),
        "secure_boot": secure_boot(root, programs),
        "selinux": host_system.selinux(root),
        "cgroup": host_system.cgroup_version(root),
        "programs": programs.versions({name: engine["program"]} if engine.get("program") else {}),
        "services": services,
        "kubelet": host_kubelet.kubelet_settings(root, services.get("kubelet", {}).get("pid", 0)),
        "toolkit": host_runtimes.toolkit_settings(root),
        "runtimes": host_runtimes.nvidia_in_files(
            root, {name: engine["config"]} if engine.get("config") else {}
        ),
        "cdi": host_cdi.specifications(root),
        "regions_mounted": host_system.is_mounted(root, REGIONS),
        "library_mount": host_system.mount_of(root, library_folder),
        "asked": {
            "smi": programs.smi() if deep else None,
            "docker": programs.docker() if deep else None,
            "container_cli": programs.container_cli() if deep else None,
        },
    }


def secure_boot(root, programs):
    """Return whether modules must be signed, and the certificate that signs them."""
    enabled = host_system.secure_boot(root)
    return {"enabled": enabled, "module_key": programs.enrolled_key() if enabled else None}


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "paths": {"type": "list", "elements": "path", "default": ["/", "/var"]},
            "deep": {"type": "bool", "default": False},
            "mig": {"type": "bool", "default": False},
            "engine": {"choices": ["containerd", "docker", "crio"], "default": "containerd"},
            "engine_program": {"default": ""},
            "engine_service": {"default": ""},
            "engine_config": {"default": ""},
            "library_folder": {"type": "path", "default": LIBRARIES},
        },
        supports_check_mode=True,
    )

    def run(words):
        return module.run_command(words, environ_update={"LC_ALL": "C", "LANGUAGE": "C"})

    def find(program):
        return module.get_bin_path(program, opt_dirs=folders(program))

    programs = Programs(find, run, driver_root=host_operator.installed("/")["driver"])
    engine = dict((part, module.params["engine_" + part]) for part in ("program", "service", "config"))
    engine["name"] = module.params["engine"]
    wanted = module.params
    report = gather(
        "/",
        programs,
        wanted["paths"],
        wanted["deep"],
        engine,
        wanted["library_folder"],
        wanted["mig"],
    )
    module.exit_json(changed=False, report=report)


if __name__ == "__main__":
    main()
