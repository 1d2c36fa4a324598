"""What the GPU Operator has installed on a host: a driver in a container, and NVIDIA's toolkit.

Runs on the target: standard library only, Python 2.7 to 3.x. What does not belong here: settings of the
toolkit (``host_runtimes``), and labels of the node.

Paths: hostPaths.driverInstallDir and toolkit.installDir in the values of the operator's chart.
"""

from __future__ import absolute_import, division, print_function

import os

__metaclass__ = type

DRIVER_ROOT = "/run/nvidia/driver"
"""Root folder of the driver container; an empty folder where the driver is installed on the host."""
TOOLKIT = "/usr/local/nvidia/toolkit"
_IN_DRIVER_ROOT = ("usr/bin/nvidia-smi", "bin/nvidia-smi")


def installed(root):
    """Return ``driver`` and ``toolkit``: whether the GPU Operator has installed each on this host."""
    return {
        "driver": any(_is_file(root, DRIVER_ROOT, name) for name in _IN_DRIVER_ROOT),
        "toolkit": _is_file(root, TOOLKIT, "nvidia-container-runtime"),
    }


def _is_file(root, folder, name):
    return os.path.isfile(os.path.join(root, folder.lstrip("/"), name))
