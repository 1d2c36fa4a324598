"""The CDI specification that NVIDIA's toolkit would generate for the GPUs of a stub.

Containers with GPUs get the same as from the toolkit: device nodes, and the libraries of the driver, which
are the stubs. The device nodes are fake: other names of harmless devices.
What does not belong here: installing the file on a node (``testbed.kubelets``).
"""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpushare.contract import CDI_KIND, CDI_KINDS, ENV_VISIBLE_DEVICES
from testbed import cuda
from testbed.nvml import build
from testbed.nvml.stub import NvmlStub

FILE: Final = "/etc/cdi/nvidia.json"
VERSION: Final = "0.5.0"
"""The lowest that device names of digits need, as NVIDIA's toolkit chooses it."""
_HARMLESS: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_LIBRARIES: Final = f"/usr/lib/{platform.machine()}-linux-gnu"


@dataclass(frozen=True, slots=True)
class LimitsHook:
    """The hook of the toolkit that sets memory limits in the driver before a container starts.

    ``program`` is the real nvidia-cdi-hook. It finds the library of the driver below ``driver_root``, and the
    library finds its GPUs by ``state``. Paths are those on the node.
    """

    program: Path
    driver_root: str
    state: str

    def edit(self, uuids: Sequence[str]) -> dict[str, Any]:
        """Return the hook of a device with these GPUs."""
        ids = [text for uuid in uuids for text in ("--gpu-id", uuid)]
        root = ["--driver-root", self.driver_root]
        return {
            "hookName": "createRuntime",
            "path": str(self.program),
            "args": ["nvidia-cdi-hook", "apply-cuda-memory-limits", *root, *ids],
            "env": [f"STUB_NVML={self.state}"],
        }


def device_node(index: int) -> str:
    """Return the device node of a GPU in a container."""
    return f"/dev/nvidia{index}"


def of_operator(stub: NvmlStub, driver: cuda.CudaStub | None = None) -> Mapping[str, str]:
    """Return the files in ``/var/run/cdi`` of a node of the GPU Operator from 25.10 on: name → text.

    NVIDIA's device plugin names each GPU by its UUID alone and with a kind of its own
    (``internal/cdi/cdi.go``, commit 041d4d42), and the toolkit names all of them together for the operator's
    own containers (``cmd/nvidia-ctk-installer/toolkit/toolkit.go`` of 1.20.1); read on 2026-11-28.
    """
    document = json.loads(specification(stub, driver))
    by_uuid = [each for each in document["devices"] if each["name"].startswith("GPU-")]
    all_of_them = [each for each in document["devices"] if each["name"] == "all"]
    plugin, management = CDI_KINDS[1], "management.nvidia.com/gpu"
    return {
        f"{kind.replace('/', '-')}.json": json.dumps({**document, "kind": kind, "devices": devices})
        for kind, devices in ((plugin, by_uuid), (management, all_of_them))
    }


def specification(
    stub: NvmlStub, driver: cuda.CudaStub | None = None, limits: LimitsHook | None = None
) -> str:
    """Return the text of the file: each GPU by UUID and by index, and all of them as "all".

    Without ``driver``, containers can read their GPUs, but not use them.
    """
    cards = stub.description.cards
    nodes = [{"path": device_node(i), "hostPath": _HARMLESS[i % len(_HARMLESS)]} for i in range(len(cards))]

    def device(name: str, *indices: int) -> dict[str, Any]:
        hooks = [limits.edit([cards[i].uuid for i in indices])] if limits else []
        edits = {"deviceNodes": [nodes[i] for i in indices], **({"hooks": hooks} if hooks else {})}
        return {"name": name, "containerEdits": edits}

    devices = [
        *(device(card.uuid, i) for i, card in enumerate(cards)),
        *(device(str(i), i) for i in range(len(cards))),
        device("all", *range(len(cards))),
    ]
    mounts = [
        _mount(str(stub.library.resolve()), f"{_LIBRARIES}/{stub.library.name}"),
        _mount(str(stub.folder), build.INSIDE),
    ]
    if driver:
        mounts += [
            _mount(str(driver.library.resolve()), f"{_LIBRARIES}/{driver.library.name}"),
            _mount(str(driver.folder), cuda.INSIDE, "rw"),
        ]
    # In each specification of NVIDIA's toolkit (pkg/nvcdi/wrapper.go of 1.20.1): it replaces the pod's value.
    edits = {"env": [f"{ENV_VISIBLE_DEVICES}=void"], "mounts": mounts}
    return json.dumps({"cdiVersion": VERSION, "kind": CDI_KIND, "devices": devices, "containerEdits": edits})


def _mount(host: str, inside: str, mode: str = "ro") -> dict[str, Any]:
    return {"hostPath": host, "containerPath": inside, "options": [mode, "nosuid", "nodev", "bind"]}
