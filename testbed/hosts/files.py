"""The files of each host, the inventory, and the SSH configuration, as texts.

What does not belong here: writing them (``lab``).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from testbed.hosts.spec import GATEWAY, PACKAGES, HostGpu, HostSpec
from testbed.kubelets.wiring import SETTINGS

DEVICES: Final = "/srv/pci/devices"
"""Mounted as /sys/bus/pci/devices on a host; tests may add GPUs."""
CONTROL: Final = ".ssh"
"""Suffix of the sockets of open connections."""
CONTAINERS_UNIT: Final = "containers-allowed.service"
"""What services that run containers require, on hosts with ``containers``."""
_SETTINGS: Final = "/srv/sysctl"
_PCI_UNIT: Final = "simulated-pci"
_NVIDIA: Final = "10de"


def of_host(host: HostSpec, address: str, public_key: str) -> dict[str, str]:
    """Return path in the host → text; the files of ``host`` override others."""
    network = f"[Match]\nName=host0\n[Network]\nAddress={address}/24\nGateway={GATEWAY}\n"
    return {
        "/etc/hostname": f"{host.name}\n",
        "/etc/hosts": f"127.0.0.1 localhost\n{address} {host.name}\n",
        # Without it, what apt asks of the name server of this machine has no answer for ten seconds.
        "/etc/resolv.conf": "# Nothing listens, so a lookup fails at once.\nnameserver 127.0.0.1\n",
        "/etc/machine-id": f"{machine_id(host.name)}\n",
        "/etc/systemd/network/10-host0.network": network,
        "/root/.ssh/authorized_keys": public_key,
        f"/etc/systemd/system/{_PCI_UNIT}.service": _PCI_SERVICE,
        f"/etc/systemd/system/ssh.service.d/{_PCI_UNIT}.conf": f"[Unit]\nWants={_PCI_UNIT}.service\n",
        f"{DEVICES}/": "",
        **{path: text for card in host.cards for path, text in _card(card)},
        **(_of_containers() if host.containers else {}),
        **host.files,
    }


def _of_containers() -> dict[str, str]:
    unit = f"/etc/systemd/system/{CONTAINERS_UNIT}"
    values = {f"{_SETTINGS}/{name}": f"{value}\n" for name, value in SETTINGS.items()}
    return {unit: _CONTAINERS_SERVICE, **values}


def machine_id(name: str) -> str:
    """Return the machine ID, the same for hosts of one name in all labs."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


_PCI_SERVICE: Final = f"""\
[Unit]
Description=PCI devices as a test describes them
Before=ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/mount --bind {DEVICES} /sys/bus/pci/devices
"""


_CONTAINERS_SERVICE: Final = f"""\
[Unit]
Description=Cgroups and kernel settings for containers
[Service]
Type=oneshot
RemainAfterExit=yes
# systemd-nspawn mounts cgroups of version 1 and kernel settings read-only. A kubelet would change settings of
# this machine.
ExecStart=/bin/sh -ec '[ -e /sys/fs/cgroup/cgroup.controllers ] || \
  for each in /sys/fs/cgroup/*/; do mount -o remount,bind,rw "$each"; done'
# The kubelet reads kernel messages to report processes that were killed for memory.
ExecStart=/bin/mknod -m 600 /dev/kmsg c 1 11
ExecStart=/bin/sh -ec 'cd {_SETTINGS} && find * -type f -exec mount --bind {{}} /proc/sys/{{}} ";"'
"""


def _card(card: HostGpu) -> Iterator[tuple[str, str]]:
    values = {
        "vendor": f"0x{_NVIDIA}",
        "device": f"0x{card.device}",
        "class": f"0x{card.device_class}",
        "subsystem_vendor": f"0x{_NVIDIA}",
        "subsystem_device": f"0x{card.subsystem}",
        "revision": "0xa1",
        "irq": "0",
        "numa_node": str(card.numa_node),
        # lspci requires the file; nothing is mapped.
        "resource": "0x0000000000000000 0x0000000000000000 0x0000000000000000",
    }
    for name, value in values.items():
        yield f"{DEVICES}/{card.slot}/{name}", f"{value}\n"


def ssh_config(addresses: Mapping[str, str], namespace: Path, folder: Path, busybox: Path) -> str:
    """Return a configuration for ``ssh -F`` with all hosts, reached through their network namespace."""
    hosts = "".join(f"Host {name}\n  HostName {address}\n" for name, address in addresses.items())
    return f"""\
{hosts}\
Host *
  User root
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  StrictHostKeyChecking yes
  LogLevel ERROR
  ConnectTimeout 5
  ProxyCommand nsenter --net={namespace} {busybox} nc %h %p
"""


def inventory(hosts: tuple[HostSpec, ...], addresses: Mapping[str, str], folder: Path) -> str:
    """Return an inventory of the hosts as JSON, which is valid YAML."""
    groups = sorted({group for host in hosts for group in host.groups})
    document = {
        "all": {
            "vars": login(folder),
            "hosts": {host.name: {"host_address": addresses[host.name]} for host in hosts},
            "children": {
                group: {"hosts": {host.name: {} for host in hosts if group in host.groups}}
                for group in groups
            },
        }
    }
    return json.dumps(document, indent=1) + "\n"


def login(folder: Path) -> dict[str, str]:
    """Return the connection variables of Ansible for all hosts."""
    # Hosts of other labs have the same addresses, so the sockets are in the folder of the lab.
    control = f"-o ControlMaster=auto -o ControlPersist=60s -o ControlPath={folder}/%n{CONTROL}"
    return {
        "ansible_user": "root",
        "ansible_ssh_common_args": f"-F {folder}/ssh_config {control}",
        "ansible_python_interpreter": "/usr/bin/python3",
    }


def binds(host: HostSpec, packages: Path) -> dict[str, Path]:
    """Return the bind mounts of a host: path in the host → path on this machine."""
    return {PACKAGES: packages, **host.binds}
