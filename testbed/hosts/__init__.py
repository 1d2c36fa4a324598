"""Real hosts with systemd and SSH on this machine, for tests of the Ansible collection.

What belongs here: starting and stopping hosts, and the files on their disks. What does not: playbooks
and tests.

    async with Lab() as lab:
        subprocess.run(["ansible", "-i", lab.inventory, "all", "-m", "ansible.builtin.ping"], check=True)

``python -m testbed.hosts up`` does the same for a shell and for molecule.
"""

from testbed.hosts.base import DEBIAN, HostBase
from testbed.hosts.lab import Lab
from testbed.hosts.spec import HOSTS, HostGpu, HostSpec

__all__ = ["DEBIAN", "HOSTS", "HostBase", "HostGpu", "HostSpec", "Lab"]
