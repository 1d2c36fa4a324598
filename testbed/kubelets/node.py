"""A node with a real kubelet: the operations that tests use.

What belongs here: starting and stopping a node and its programs. What does not: the machine of the node
(``testbed.kubelets.machine``), and the configuration of its programs (``testbed.kubelets.files``).
"""

import asyncio
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from devkit.process import Process, Ready
from devkit.waiting import until
from gpushare.errors import ConfigError
from testbed.control_plane.api import Object
from testbed.control_plane.bed import Bed, is_ready
from testbed.kubelets import bundles, files, images
from testbed.kubelets.machine import NodeMachine
from testbed.kubelets.needs import KubeletNeeds, look
from testbed.kubelets.programs import KUBELET, Programs
from testbed.kubelets.spec import KubeletLayout, KubeletSpec
from testbed.programs import build
from testbed.programs.binaries import Installed

_NODES = "/api/v1/nodes"
_IMPORT_S = 60.0
_READY_S = 60.0


async def add_kubelet(bed: Bed, spec: KubeletSpec) -> "KubeletNode":
    """Add a node with a real kubelet to a testbed, and return it when pods can run on it.

    It ends with the testbed. Raises DevkitError with missing requirements of this machine, or the program
    that did not start, and ConfigError if the testbed has a node of that name.
    """
    found = look()
    tools = await build.ensure(spec.tools)
    node = KubeletNode(bed, spec, found, tools)
    if node.is_open:
        raise ConfigError(f"testbed {bed.name!r} already has a node {spec.name!r}: choose another name")
    try:
        await node.open()
    except BaseException:
        await node.close()
        raise
    bed.exits.push_async_callback(node.close)
    return node


class KubeletNode:
    """One node: containerd and kubelet on a simulated machine.

    Its processes are ``node`` (has the namespaces), ``api`` (forwards the API server into the node),
    ``containerd``, ``kubelet``, ``kube-proxy`` (with ``services``), and the spawned ones. Their names in the
    testbed, for logs and pid files, are prefixed with the name of the node and a dot.
    """

    def __init__(
        self, bed: Bed, spec: KubeletSpec, found: KubeletNeeds, tools: Mapping[str, Installed]
    ) -> None:
        self.bed = bed
        self.spec = spec
        self._found = found
        self._tools = tools
        self._spawned: dict[str, Process] = {}
        layout = KubeletLayout(spec.name, bed.folder, bed.layout.data)
        self._machine = NodeMachine(bed, layout, host_pid=spec.host_pid)
        self._programs = Programs(bed, self._machine, tools)

    @property
    def name(self) -> str:
        """The name of the node in Kubernetes."""
        return self.spec.name

    @property
    def is_open(self) -> bool:
        """Whether the testbed has a node of this name that is on."""
        return self._machine.is_on

    @property
    def address(self) -> str:
        """The IP address of the node, reachable from this machine."""
        return self._machine.subnet.node

    @property
    def root(self) -> Path:
        """The root folder of the node on this machine, while it is on."""
        return self._machine.root

    def path(self, inside: str) -> Path:
        """Return the path on this machine of an absolute path in the node, valid until reboot or close."""
        return self._machine.path(inside)

    def inside(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs ``argv`` in the node."""
        return self._machine.inside(argv)

    async def run_text(self, argv: Sequence[str], timeout_s: float = 30.0) -> str:
        """Run a short command in the node and return its stdout; raise DevkitError with its stderr."""
        return await self._machine.run_text(argv, timeout_s)

    async def spawn(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        ready: Ready | str | None = None,
        ready_s: float = 30.0,
    ) -> Process:
        """Run another program in the node; see ``Bed.spawn``.

        A URL in ``ready`` is polled from this machine, so the program must listen on ``address``. A program
        that is running when the node reboots is started again.
        """
        full = self._machine.process_name(name)
        process = await self.bed.spawn(full, self.inside(argv), env=env, ready=ready, ready_s=ready_s)
        self._spawned[name] = process
        return process

    def process(self, name: str) -> Process:
        """Return a process of the node; raise ConfigError if there is none of that name."""
        return self.bed.process(self._machine.process_name(name))

    async def start(self, name: str) -> None:
        """Start a stopped or killed process again and wait until it is ready."""
        await self.process(name).start()

    async def stop(self, name: str, grace_s: float = 10.0) -> None:
        """Stop a process: SIGTERM, then SIGKILL after ``grace_s`` seconds. Containers keep running."""
        await self.process(name).stop(grace_s)

    async def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to a process; after SIGKILL, wait until it has exited."""
        await self.bed.kill(self._machine.process_name(name), number)

    async def pause(self, name: str) -> None:
        """Suspend a process; pausing ``api`` disconnects the node from the API server."""
        await self.process(name).pause()

    async def resume(self, name: str) -> None:
        """Continue a paused process."""
        await self.process(name).resume()

    async def reboot(self) -> None:
        """Cut the power and start again: all processes are killed, /run is empty, the disk stays.

        Returns when the node is Ready and the spawned programs that were running are started again. The
        kubelet restarts the containers of pods.
        """
        running = [process for process in self._spawned.values() if process.running]
        await self._machine.power_off()
        await asyncio.gather(*(process.wait() for process in running))
        await self._boot()
        for process in running:
            await process.start()

    async def oci_spec(self, pod: str, container: str, timeout_s: float = 30.0) -> Object:
        """Return the OCI spec that runc got for a container (config.json of its bundle), once it exists.

        The nvidia runtime has edited the spec by the time the container runs. Raises DevkitError if there
        is no such container within ``timeout_s`` seconds.
        """

        async def find() -> Object | None:
            return bundles.spec_of(self.path(files.BUNDLES), "default", pod, container)

        found = await until(find, f"container {container} of pod default/{pod} on {self.name}", timeout_s)
        assert found is not None  # noqa: S101 - until returns truthy results
        return found

    async def load_images(self, archive: Path) -> None:
        """Load images from a tar in the format of ``docker save``."""
        ctr = str(self._tools["ctr"].path)
        await self.run_text([ctr, "--namespace=k8s.io", "images", "import", str(archive)], _IMPORT_S)

    async def stand_in(self, *names: str) -> None:
        """Add image names (full, ``docker.io/…``) for a busybox that sleeps."""
        ctr = [str(self._tools["ctr"].path), "--namespace=k8s.io"]
        await self.run_text([*ctr, "images", "tag", "--force", files.PAUSE_IMAGE, *names])

    async def open(self) -> None:
        """Create the Node and start all programs for the first time; the caller closes it."""
        metadata = {"name": self.name, "labels": self.spec.labels, "annotations": self.spec.annotations}
        await self.bed.api.create(_NODES, {"metadata": metadata})
        await self._boot(first=True)

    async def close(self) -> None:
        """Stop spawned programs with SIGTERM, then cut the power; the Node object stays."""
        await asyncio.gather(*(process.stop() for process in self._spawned.values()))
        await self._machine.power_off()

    async def _boot(self, *, first: bool = False) -> None:
        await self._machine.power_on()
        if first:
            self._write_files()
        await self._programs.containerd()
        if first:
            # Before the kubelet, which ends if it starts during an import: it finds the temporary mount of an
            # image, but no file system for it.
            await self._load_own_images()
        await self._programs.kubelet()
        await until(self._is_ready, f"node {self.name} to be Ready", _READY_S)
        if self.spec.services:
            await self._programs.kube_proxy()

    def _write_files(self) -> None:
        programs = {name: tool.path for name, tool in self._tools.items()}
        subnet, ca = self._machine.subnet, self.bed.ca_file
        for inside, text in files.texts(self.spec, subnet, programs, self._found.cni, ca).items():
            file = self.path(inside)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        folder = self.path(files.KUBELET_PKI)
        folder.mkdir(exist_ok=True)
        self.bed.credentials.server(self.name, [self.name, self.address]).write(folder, KUBELET)

    async def _load_own_images(self) -> None:
        archive = self._machine.layout.folder / "images.tar"
        archive.write_bytes(images.archive(self._found.busybox))
        await self.load_images(archive)

    async def _is_ready(self) -> bool:
        return is_ready(await self.bed.api.get(f"{_NODES}/{self.name}"), self._machine.boot_id)
