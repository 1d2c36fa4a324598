"""A running testbed: the operations that tests use.

What belongs here: starting and stopping components, nodes, kubectl, additional processes. What does not: the
start of a testbed (``testbed.control_plane.start``) and the creation of its parts.
"""

import asyncio
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path

from devkit.errors import DevkitError
from devkit.process import Command, Process, Ready, run_text
from devkit.waiting import until
from gpushare.errors import ApiError, ConfigError
from testbed.control_plane.api import Api, Object, read_text
from testbed.control_plane.components import Components, scheduler_url, url_ready
from testbed.control_plane.credentials import BedCredentials
from testbed.control_plane.home import Home
from testbed.control_plane.layout import COMPONENTS, BedLayout
from testbed.control_plane.nodes import SimNode, node_object
from testbed.control_plane.scheduler import SchedulerSpec
from testbed.programs import build

_NODES = "/api/v1/nodes"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_NOT_READY = "node.kubernetes.io/not-ready"
_KUBECTL_S = 60.0


@dataclass
class Bed:
    """A Kubernetes cluster on loopback only. ``api`` is the client of the admin.

    ``exits`` runs before the components stop.
    """

    home: Home
    layout: BedLayout
    credentials: BedCredentials
    components: Components
    api: Api
    scheduler: SchedulerSpec
    processes: dict[str, Process] = field(default_factory=dict)
    exits: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def name(self) -> str:
        """The name of the testbed, given or generated."""
        return self.home.name

    @property
    def folder(self) -> Path:
        """The folder of this testbed; logs are in ``logs/``."""
        return self.layout.folder

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the admin."""
        return self.layout.kubeconfig("admin")

    @property
    def api_url(self) -> str:
        """Address of the API server."""
        return self.layout.api_url

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority that signed the certificate of the API server."""
        return self.layout.pki / "ca.crt"

    @property
    def audit_log(self) -> Path:
        """The log of all writes, if the testbed was created with ``audit=True``; see ``audit``."""
        return self.layout.audit_log

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig for any user name, such as ``system:serviceaccount:<namespace>:<name>``.

        The groups of a service account are added. Raises ConfigError for names over 64 characters.
        """
        return self.credentials.kubeconfig_for(user, groups)

    def api_for(self, user: str) -> Api:
        """Return a client that acts as ``user``; close it after use."""
        return Api(self.api_url, self.credentials.context(user))

    async def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = _KUBECTL_S) -> str:
        """Run kubectl as admin and return its stdout; raise DevkitError with its stderr."""
        program = self.components.tools["kubectl"].path
        cache = self.folder / "kubectl-cache"
        argv = [str(program), f"--kubeconfig={self.kubeconfig}", f"--cache-dir={cache}", *arguments]
        return await run_text(argv, timeout_s, stdin=stdin)

    async def apply(self, yaml_text: str) -> str:
        """``kubectl apply`` a manifest."""
        return await self.kubectl("apply", "-f", "-", stdin=yaml_text)

    async def add_nodes(self, nodes: Iterable[SimNode], timeout_s: float = 120.0) -> None:
        """Create simulated nodes and wait until pods can be scheduled to them and kwok runs their pods."""
        made = await self.api.create_many((_NODES, node_object(node)) for node in nodes)
        uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in made}
        # A list of 1,000 nodes costs the API server 50 ms.
        poll_s = 0.05 + len(uids) / 1000
        await until(lambda: self._schedulable(set(uids)), f"{len(uids)} nodes to be Ready", timeout_s, poll_s)
        if "kwok" in self.processes:
            await until(lambda: self._leased(uids), f"kwok to manage {len(uids)} nodes", timeout_s, poll_s)

    async def delete_node(self, name: str) -> None:
        """Delete a node; its pods stay until Kubernetes collects them.

        Its Lease is deleted first: otherwise kwok would renew it for a new node of the same name, the garbage
        collector would delete it seconds later, and pods created meanwhile would stay pending.
        """
        try:
            await self.api.delete(f"{_LEASES}/{name}")
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        await self.api.delete(f"{_NODES}/{name}")

    async def create_pods(self, pods: Iterable[Object], concurrency: int = 32) -> list[Object]:
        """Create many pods, in order, ``concurrency`` at a time; return the stored objects."""
        return await self.api.create_many(
            ((f"/api/v1/namespaces/{pod['metadata'].get('namespace', 'default')}/pods", pod) for pod in pods),
            concurrency,
        )

    async def create_namespace(self, name: str) -> None:
        """Create a namespace and wait until pods can be created in it."""
        await self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        await self.until_service_account(name)

    async def until_service_account(self, namespace: str = "default") -> None:
        """Wait for the default service account, without which no pod is accepted."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        await until(lambda: self.api.get(path), f"the default service account of {namespace}")

    async def scheduler_metrics(self) -> str:
        """Return the metrics of the scheduler."""
        url = f"{scheduler_url(self.layout, self.scheduler)}/metrics"
        return await read_text(url, self.components.context)

    def process(self, name: str) -> Process:
        """Return a component or a spawned process by name; raise ConfigError if there is none."""
        if name not in self.processes:
            known = ", ".join(self.processes)
            raise ConfigError(f"testbed {self.name!r} has no process {name!r}: use one of {known}")
        return self.processes[name]

    async def start(self, name: str) -> None:
        """Start a stopped or killed process again and wait until it is ready."""
        await self.process(name).start()

    async def stop(self, name: str, grace_s: float = 10.0) -> None:
        """Stop a process: SIGTERM, then SIGKILL after ``grace_s`` seconds."""
        await self.process(name).stop(grace_s)

    async def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to a process; after SIGKILL, wait until it has exited."""
        process = self.process(name)
        process.kill(number)
        if number == signal.SIGKILL:
            await process.wait()

    async def pause(self, name: str) -> None:
        """Suspend a process: it keeps its connections and does not respond."""
        await self.process(name).pause()

    async def resume(self, name: str) -> None:
        """Continue a paused process."""
        await self.process(name).resume()

    async def restart_scheduler(self, spec: SchedulerSpec) -> None:
        """Replace the scheduler by that of ``spec``, which may have another version or none."""
        if "kube-scheduler" in self.processes:
            await self.processes.pop("kube-scheduler").stop()
        self.scheduler = spec
        if spec.version is not None:
            tools = {**self.components.tools, **await build.ensure([spec.tool])}
            self.components = replace(self.components, tools=tools)
            await self.run(self.components.kube_scheduler(spec))

    async def spawn(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        ready: Ready | str | None = None,
        ready_s: float = 30.0,
    ) -> Process:
        """Run another program in this testbed, and return it when it is ready.

        ``ready`` is a URL that responds with 200, or an async function that returns whether it is ready.
        ``env`` is added to the environment. The program and its children end with the testbed; its output
        is in ``logs/<name>.log``. The name of an exited process can be reused.
        """
        if name in COMPONENTS or (name in self.processes and self.processes[name].running):
            raise ConfigError(f"testbed {self.name!r} already has a process {name!r}: choose another name")
        check = url_ready(ready) if isinstance(ready, str) else ready
        bound = self.components.bound
        return await self.run(Command(name, argv, self.folder, env or {}, check, ready_s, bound))

    async def run(self, command: Command) -> Process:
        """Start a command as a process of this testbed."""
        process = Process(command)
        self.processes[command.name] = process
        await process.start()
        return process

    async def halt(self) -> None:
        """Stop all processes: spawned ones with SIGTERM first, then the components with SIGKILL."""
        try:
            await self.exits.aclose()
        finally:
            await self._end_processes()
            await self.api.close()

    async def _end_processes(self) -> None:
        own = [process for name, process in self.processes.items() if name not in COMPONENTS]
        await asyncio.gather(*(process.stop() for process in own))
        started = [process for process in self.processes.values() if process.started]
        for process in reversed(started):
            process.kill()
        await asyncio.gather(*(process.wait() for process in started))

    async def close(self) -> None:
        """Stop all processes and remove the data; the logs of a named testbed stay."""
        try:
            await self.halt()
        finally:
            self.home.release()

    async def leave_up(self) -> None:
        """Keep the testbed running after this process; only for testbeds created with ``bound=False``."""
        if self.components.bound:
            raise DevkitError(f"testbed {self.name!r} ends with this process: create it with bound=False")
        await self.api.close()
        self.home.leave_up({"kubeconfig": str(self.kubeconfig), "api_url": self.api_url})

    async def _schedulable(self, names: set[str]) -> bool:
        ready = {node["metadata"]["name"] for node in await self.api.items(_NODES) if not _is_tainted(node)}
        return names <= ready

    async def _leased(self, uids: Mapping[str, str]) -> bool:
        """Return whether kwok has a Lease for each node (name → UID); without one it runs no pods."""
        leases = [each["metadata"] for each in await self.api.items(_LEASES)]
        owned = {(each["name"], owner["uid"]) for each in leases for owner in each.get("ownerReferences", ())}
        return uids.items() <= owned


def is_ready(node: Object, boot_id: str) -> bool:
    """Return whether pods can run on a node with a kubelet since that boot."""
    status = node["status"]
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    # After a reboot, the status is outdated until the kubelet has reported the new boot ID.
    current = status.get("nodeInfo", {}).get("bootID") == boot_id
    return current and conditions.get("Ready") == "True" and not _is_tainted(node)


def _is_tainted(node: Object) -> bool:
    return any(taint["key"] == _NOT_READY for taint in node["spec"].get("taints", ()))
