"""A node with its own kernel: cgroup v2 and the systemd driver, on any machine.

What belongs here: starting and stopping the node and its programs, which are units of systemd. What does not:
its machine (``machine``), and the configuration of its programs (``testbed.kubelets.files``).
"""

import io
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devkit.errors import DevkitError
from devkit.waiting import until
from gpushare.errors import ConfigError
from release.archives import ArchiveFile, tar
from testbed.control_plane.bed import Bed, is_ready
from testbed.control_plane.components import url_ready
from testbed.kubelets import files, images
from testbed.kubelets.programs import CONTAINERD, KUBELET
from testbed.kubelets.spec import RUNC, KubeletLayout, KubeletSpec
from testbed.programs import build
from testbed.programs.binaries import Installed
from testbed.uml import image, wiring
from testbed.uml.machine import UmlMachine
from testbed.uml.needs import UmlNeeds, look

_NODES: Final = "/api/v1/nodes"
_API: Final = "api"
_CNI: Final = Path("/usr/lib/cni")
_KUBECONFIG: Final = "/var/lib/kubelet/kubeconfig"
_CA: Final = f"{files.KUBELET_PKI}/ca.crt"
_CONTAINERD_LINES: Final = ("Type=notify", "Delegate=yes", "KillMode=process", "LimitNOFILE=infinity")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_IMPORT_S: Final = 120.0
_READY_S: Final = 120.0
_JOURNAL: Final = "30"


async def add_uml_node(bed: Bed, spec: KubeletSpec) -> "UmlNode":
    """Add a node with its own kernel to a testbed, and return it when pods can run on it.

    It ends with the testbed. Raises DevkitError with missing requirements of this machine, or the program
    that did not start.
    """
    if spec.services:
        raise ConfigError(f"node {spec.name!r} cannot have services: its kernel lacks netfilter tables")
    found = look()
    # The image has the runc of Debian.
    tools = await build.ensure([each for each in spec.tools if each != RUNC])
    node = UmlNode(bed, spec, found, tools, await image.ensure())
    bed.exits.push_async_callback(node.close)
    await node.open()
    return node


@dataclass(frozen=True)
class Unit:
    """A program of a node, as a unit of systemd on it."""

    node: "UmlNode"
    name: str

    async def start(self) -> None:
        """Start it, and return when systemd has."""
        try:
            await self.node.run_text(["systemctl", "start", self.name])
        except DevkitError as error:
            raise DevkitError(f"{error}; its journal ends with:\n{await self.journal()}") from None

    async def stop(self) -> None:
        """Stop it as systemd does: SIGTERM first."""
        await self.node.run_text(["systemctl", "stop", self.name])

    async def kill(self) -> None:
        """Send SIGKILL to all its processes; it stays stopped."""
        await self.node.run_text(["systemctl", "kill", "--signal=KILL", self.name])

    async def journal(self, lines: str = _JOURNAL) -> str:
        """Return the last lines of its output since the last boot."""
        return await self.node.run_text(
            ["journalctl", "--no-pager", f"--lines={lines}", f"--unit={self.name}"]
        )


class UmlNode:
    """One node: containerd, kubelet and spawned programs on a machine with its own kernel."""

    def __init__(
        self, bed: Bed, spec: KubeletSpec, found: UmlNeeds, tools: Mapping[str, Installed], base: Path
    ) -> None:
        self.bed = bed
        self.spec = spec
        self._found = found
        self._tools = tools
        self._machine = UmlMachine(
            bed, KubeletLayout(spec.name, bed.folder, bed.layout.data), found.kernel, base
        )
        self._boot_id = ""

    @property
    def name(self) -> str:
        """The name of the node in Kubernetes."""
        return self.spec.name

    @property
    def address(self) -> str:
        """The IP address of the node, reachable from this machine."""
        return self._machine.subnet.node

    @property
    def host_address(self) -> str:
        """The IP address of this machine, reachable from the node."""
        return self._machine.subnet.host

    def unit(self, name: str) -> Unit:
        """Return a program of the node: ``containerd``, ``kubelet``, or a spawned one."""
        return Unit(self, name)

    async def run_text(self, argv: Sequence[str], timeout_s: float = 60.0, stdin: bytes = b"") -> str:
        """Run a short command on the node and return its stdout; raise DevkitError with its stderr."""
        return await self._machine.run_text(argv, timeout_s, stdin)

    async def read(self, path: str) -> bytes:
        """Return the content of a file of the node."""
        return await self._machine.run_bytes(["cat", path])

    async def write(self, texts: Mapping[str, str | bytes]) -> None:
        """Write files of the node, path → content, and their folders."""
        contents = {path: text.encode() if isinstance(text, str) else text for path, text in texts.items()}
        await self._unpack(tar({path.lstrip("/"): ArchiveFile(each) for path, each in contents.items()}))

    async def _unpack(self, archive: bytes) -> None:
        await self.run_text(["tar", "--extract", "--directory=/"], stdin=archive)

    async def copy(self, folder: Path, there: str) -> None:
        """Copy the files of a folder of this machine into one of the node."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            archive.add(folder, there.lstrip("/"))
        await self._unpack(buffer.getvalue())

    async def spawn(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        ready: str | None = None,
        ready_s: float = 60.0,
    ) -> Unit:
        """Run a program of this machine on the node, now and at each boot; ``ready`` is a URL."""
        unit = self.unit(name)
        await self.write({_unit_file(name): wiring.unit(wiring.in_tree(argv), env or {})})
        await self.run_text(["systemctl", "--quiet", "enable", name])
        await unit.start()
        if ready:
            try:
                await until(url_ready(ready), f"{name} of {self.name} to be ready", ready_s)
            except DevkitError as error:
                raise DevkitError(f"{error}; its journal ends with:\n{await unit.journal()}") from None
        return unit

    async def load_images(self, archive: Path) -> None:
        """Load images from a tar in the format of ``docker save``."""
        argv = [self._program("ctr"), "--namespace=k8s.io", "images", "import", wiring.there(archive)]
        await self.run_text(argv, _IMPORT_S)

    async def reboot(self) -> None:
        """Write the disk, cut the power and start again; return when the node is Ready again."""
        await self.run_text(["sync"])
        await self._machine.power_off()
        await self._power_on()
        await self._until_ready()

    async def open(self) -> None:
        """Create the Node and start all programs for the first time; the caller closes it."""
        metadata = {"name": self.name, "labels": self.spec.labels, "annotations": self.spec.annotations}
        await self.bed.api.create(_NODES, {"metadata": metadata})
        await self._power_on()
        await self._write_files()
        await self._start_programs()
        await self._until_ready()

    async def close(self) -> None:
        """Cut the power; the Node object stays."""
        await self._machine.power_off()

    async def _power_on(self) -> None:
        await self._machine.power_on()
        self._boot_id = await self.run_text(["cat", "/proc/sys/kernel/random/boot_id"])

    async def _write_files(self) -> None:
        programs = {name: Path(wiring.there(tool.path)) for name, tool in self._tools.items()}
        subnet, ca = self._machine.subnet, Path(_CA)
        pair = self.bed.credentials.server(self.name, [self.name, self.address])
        kubeconfig = self.bed.kubeconfig_for(f"system:node:{self.name}", ["system:nodes"])
        await self.write(
            {
                **files.texts(self.spec, subnet, programs, _CNI, ca, systemd=True),
                **{_unit_file(name): text for name, text in self._units().items()},
                _CA: self.bed.ca_file.read_bytes(),
                f"{files.KUBELET_PKI}/{KUBELET}.crt": pair.cert,
                f"{files.KUBELET_PKI}/{KUBELET}.key": pair.key,
                _KUBECONFIG: kubeconfig.read_bytes(),
            }
        )

    def _units(self) -> dict[str, str]:
        shim = Path(self._program("containerd-shim-runc-v2")).parent
        env = {"PATH": f"{shim}:{_PATH}"}
        forwarder = wiring.api_forwarder(sys.executable, self.bed.layout.ports.apiserver)
        return {
            _API: wiring.unit(forwarder),
            CONTAINERD: wiring.unit([self._program(CONTAINERD)], env, _CONTAINERD_LINES),
            KUBELET: wiring.unit(self._kubelet(), lines=("Restart=always", "RestartSec=1")),
        }

    async def _start_programs(self) -> None:
        await self.run_text(["systemctl", "--quiet", "enable", *self._units()])
        await self.run_text(["systemctl", "start", "--no-block", _API])
        await self.unit(CONTAINERD).start()
        # Before the kubelet, as on a node without its own kernel.
        archive = self._machine.layout.folder / "images.tar"
        archive.write_bytes(images.archive(self._found.busybox))
        await self.load_images(archive)
        await self.unit(KUBELET).start()

    def _kubelet(self) -> list[str]:
        return [
            self._program(KUBELET),
            f"--config={files.KUBELET_CONFIG}",
            f"--kubeconfig={_KUBECONFIG}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
        ]

    def _program(self, name: str) -> str:
        return wiring.there(self._tools[name].path)

    async def _until_ready(self) -> None:
        try:
            await until(self._is_ready, f"node {self.name} to be Ready", _READY_S)
        except DevkitError as error:
            journal = await self.unit(KUBELET).journal()
            raise DevkitError(f"{error}; the journal of the kubelet ends with:\n{journal}") from None

    async def _is_ready(self) -> bool:
        return is_ready(await self.bed.api.get(f"{_NODES}/{self.name}"), self._boot_id.strip())


def _unit_file(name: str) -> str:
    return f"/etc/systemd/system/{name}.service"
