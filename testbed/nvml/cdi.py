"""The CDI specification that NVIDIA's toolkit would generate for the GPUs of a stub.

Containers with GPUs get the same as from the toolkit: device nodes, and the library of the driver, which
is the stub. The device nodes are fake: other names of harmless devices.
What does not belong here: installing the file on a node (``testbed.kubelets``).
"""

import json
import platform
from typing import Any, Final

from gpushare.contract import CDI_KIND
from testbed.nvml.stub import NvmlStub

FILE: Final = "/etc/cdi/nvidia.json"
_HARMLESS: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_FOLDER: Final = "/run/stub-nvml"


def device_node(index: int) -> str:
    """Return the device node of a GPU in a container."""
    return f"/dev/nvidia{index}"


def specification(stub: NvmlStub) -> str:
    """Return the text of the file: each GPU by UUID and by index, and all of them as "all"."""
    cards = stub.description.cards
    nodes = [{"path": device_node(i), "hostPath": _HARMLESS[i % len(_HARMLESS)]} for i in range(len(cards))]
    devices = [
        *({"name": card.uuid, "containerEdits": {"deviceNodes": [nodes[i]]}} for i, card in enumerate(cards)),
        *({"name": str(i), "containerEdits": {"deviceNodes": [node]}} for i, node in enumerate(nodes)),
        {"name": "all", "containerEdits": {"deviceNodes": nodes}},
    ]
    edits = _driver(stub)
    return json.dumps({"cdiVersion": "0.6.0", "kind": CDI_KIND, "devices": devices, "containerEdits": edits})


def _driver(stub: NvmlStub) -> dict[str, Any]:
    """Return the edits of the driver, for every container with a GPU."""
    library = f"/usr/lib/{platform.machine()}-linux-gnu/{stub.library.name}"
    return {
        "env": [f"STUB_NVML={_FOLDER}/{stub.state.name}"],
        "mounts": [
            _mount(str(stub.library.resolve()), library),
            _mount(str(stub.folder), _FOLDER),
        ],
    }


def _mount(host: str, inside: str) -> dict[str, Any]:
    return {"hostPath": host, "containerPath": inside, "options": ["ro", "nosuid", "nodev", "bind"]}
