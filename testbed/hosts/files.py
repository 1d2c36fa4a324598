"""The files by which one host differs from another, the inventory, and SSH's settings, as texts.

What belongs here: texts. What does not: writing them (``lab``).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from testbed.hosts.spec import GATEWAY, PACKAGES, Card, HostSpec

DEVICES: Final = "/srv/pci/devices"
"""What a host sees as /sys/bus/pci/devices; tests may put other cards there."""
CONTROL: Final = ".ssh"
"""How the names of the sockets of open connections end."""
_PCI_UNIT: Final = "simulated-pci"
_NVIDIA: Final = "10de"


def of_host(host: HostSpec, address: str, public_key: str) -> dict[str, str]:
    """Return path in the host to text; the files of ``host`` come last and win."""
    network = f"[Match]\nName=host0\n[Network]\nAddress={address}/24\nGateway={GATEWAY}\n"
    return {
        "/etc/hostname": f"{host.name}\n",
        "/etc/hosts": f"127.0.0.1 localhost\n{address} {host.name}\n",
        "/etc/machine-id": f"{machine_id(host.name)}\n",
        "/etc/systemd/network/10-host0.network": network,
        "/root/.ssh/authorized_keys": public_key,
        f"/etc/systemd/system/{_PCI_UNIT}.service": _PCI_SERVICE,
        f"/etc/systemd/system/ssh.service.d/{_PCI_UNIT}.conf": f"[Unit]\nWants={_PCI_UNIT}.service\n",
        f"{DEVICES}/": "",
        **{path: text for card in host.cards for path, text in _card(card)},
        **host.files,
    }


def machine_id(name: str) -> str:
    """Return the host's own identity, the same for hosts of one name in all labs."""
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


def _card(card: Card) -> Iterator[tuple[str, str]]:
    values = {
        "vendor": f"0x{_NVIDIA}",
        "device": f"0x{card.device}",
        "class": f"0x{card.device_class}",
        "subsystem_vendor": f"0x{_NVIDIA}",
        "subsystem_device": f"0x{card.subsystem}",
        "revision": "0xa1",
        "irq": "0",
        "numa_node": str(card.numa_node),
        # What lspci wants to read; nothing is mapped.
        "resource": "0x0000000000000000 0x0000000000000000 0x0000000000000000",
    }
    for name, value in values.items():
        yield f"{DEVICES}/{card.slot}/{name}", f"{value}\n"


def ssh_config(addresses: Mapping[str, str], namespace: Path, folder: Path, busybox: Path) -> str:
    """Return settings with which ``ssh -F`` reaches the hosts by name, through their network namespace."""
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
    """Return an inventory of the hosts; JSON, which is YAML too."""
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
    """Return the variables by which Ansible reaches every host."""
    # Named here, the sockets are not those of other labs, whose hosts have the same addresses.
    control = f"-o ControlMaster=auto -o ControlPersist=60s -o ControlPath={folder}/%n{CONTROL}"
    return {
        "ansible_user": "root",
        "ansible_ssh_common_args": f"-F {folder}/ssh_config {control}",
        "ansible_python_interpreter": "/usr/bin/python3",
    }


def binds(host: HostSpec, packages: Path) -> dict[str, Path]:
    """Return what a host sees of this machine: path there to path here."""
    return {PACKAGES: packages, **host.binds}
