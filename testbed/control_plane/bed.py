"""A running testbed: the verbs that tests use.

What belongs here: components' lives, nodes, kubectl, further processes. What does not: how a bed
comes to run (``testbed.control_plane.start``) and how any one part is made.
"""

import asyncio
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path

from gpushare.errors import ApiError, ConfigError
from testbed.control_plane.api import Api, Object, read_text
from testbed.control_plane.components import Components, scheduler_url, url_ready
from testbed.control_plane.credentials import Credentials
from testbed.control_plane.home import Home
from testbed.control_plane.layout import COMPONENTS, Layout
from testbed.control_plane.nodes import SimNode, node_object
from testbed.control_plane.scheduler import SchedulerSpec
from testbed.errors import TestbedError
from testbed.programs import build
from testbed.system.process import Command, Process, Ready, run_text
from testbed.system.waiting import until

_NODES = "/api/v1/nodes"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_NOT_READY = "node.kubernetes.io/not-ready"
_KUBECTL_S = 60.0


@dataclass
class Bed:
    """A Kubernetes of one's own, on loopback only. ``api`` is the admin's client.

    ``exits`` is what ends before any component does.
    """

    home: Home
    layout: Layout
    credentials: Credentials
    components: Components
    api: Api
    scheduler: SchedulerSpec
    processes: dict[str, Process] = field(default_factory=dict)
    exits: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def name(self) -> str:
        """The bed's name, given or made up."""
        return self.home.name

    @property
    def folder(self) -> Path:
        """Where everything of this bed lies; logs are in ``logs/``."""
        return self.layout.folder

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self.layout.kubeconfig("admin")

    @property
    def api_url(self) -> str:
        """Address of the API server."""
        return self.layout.api_url

    @property
    def ca_file(self) -> Path:
        """The authority that signed the API server's certificate."""
        return self.layout.pki / "ca.crt"

    @property
    def audit_log(self) -> Path:
        """The history of all writes, where the bed was made with ``audit=True``; see ``audit``."""
        return self.layout.audit_log

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return a kubeconfig for any user name, such as ``system:serviceaccount:<namespace>:<name>``.

        A service account's own groups are added. Raises ConfigError for names over 64 characters.
        """
        return self.credentials.kubeconfig_for(user, groups)

    def api_for(self, user: str, groups: Sequence[str] = ()) -> Api:
        """Return a client that acts as ``user``; close it after use."""
        return Api(self.api_url, self.credentials.context(user, groups))

    async def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = _KUBECTL_S) -> str:
        """Run kubectl as admin and return its stdout; raise TestbedError with its stderr."""
        program = self.components.tools["kubectl"].path
        cache = self.folder / "kubectl-cache"
        argv = [str(program), f"--kubeconfig={self.kubeconfig}", f"--cache-dir={cache}", *arguments]
        return await run_text(argv, timeout_s, stdin=stdin)

    async def apply(self, yaml_text: str) -> str:
        """``kubectl apply`` a manifest."""
        return await self.kubectl("apply", "-f", "-", stdin=yaml_text)

    async def add_nodes(self, nodes: Iterable[SimNode], timeout_s: float = 120.0) -> None:
        """Create simulated nodes and wait until pods can be scheduled to them and kwok would run them."""
        made = await self.api.create_many((_NODES, node_object(node)) for node in nodes)
        uids = {each["metadata"]["name"]: each["metadata"]["uid"] for each in made}
        # A list of 1,000 nodes costs the API server 50 ms.
        poll_s = 0.05 + len(uids) / 1000
        await until(lambda: self._schedulable(set(uids)), f"{len(uids)} nodes to be Ready", timeout_s, poll_s)
        if "kwok" in self.processes:
            await until(lambda: self._held(uids), f"kwok to hold {len(uids)} nodes", timeout_s, poll_s)

    async def delete_node(self, name: str) -> None:
        """Delete a node at once; its pods stay until Kubernetes collects them.

        Its lease goes first: kwok would renew it for a new node of the same name, lose it to the garbage
        collector seconds later, and leave pods of that moment pending for ever.
        """
        try:
            await self.api.delete(f"{_LEASES}/{name}")
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        await self.api.delete(f"{_NODES}/{name}")

    async def create_pods(self, pods: Iterable[Object], concurrency: int = 32) -> list[Object]:
        """Create many pods, in order, ``concurrency`` at a time; return them as they were stored."""
        return await self.api.create_many(
            ((f"/api/v1/namespaces/{pod['metadata'].get('namespace', 'default')}/pods", pod) for pod in pods),
            concurrency,
        )

    async def create_namespace(self, name: str) -> None:
        """Create a namespace and wait until pods can be created in it."""
        await self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        await self.until_service_account(name)

    async def until_service_account(self, namespace: str = "default") -> None:
        """Wait until the default service account is there, without which no pod is accepted."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        await until(lambda: self.api.get(path), f"the default service account of {namespace}")

    async def scheduler_metrics(self) -> str:
        """Return what the scheduler's /metrics says."""
        url = f"{scheduler_url(self.layout, self.scheduler)}/metrics"
        return await read_text(url, self.components.context)

    def process(self, name: str) -> Process:
        """Return a component or a spawned process by name; raise ConfigError where there is none."""
        if name not in self.processes:
            known = ", ".join(self.processes)
            raise ConfigError(f"testbed {self.name!r} has no process {name!r}: use one of {known}")
        return self.processes[name]

    async def start(self, name: str) -> None:
        """Start a stopped or killed process again and wait until it is ready."""
        await self.process(name).start()

    async def stop(self, name: str, grace_s: float = 10.0) -> None:
        """End a process: SIGTERM, then SIGKILL after ``grace_s`` seconds."""
        await self.process(name).stop(grace_s)

    async def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to a process, and wait for its end where the signal cannot be caught."""
        process = self.process(name)
        process.kill(number)
        if number == signal.SIGKILL:
            await process.wait()

    async def pause(self, name: str) -> None:
        """Stop a process in its tracks: it keeps its connections and answers nothing."""
        await self.process(name).pause()

    async def resume(self, name: str) -> None:
        """Let a paused process go on."""
        await self.process(name).resume()

    async def restart_scheduler(self, spec: SchedulerSpec) -> None:
        """Replace the scheduler by the one of ``spec``, of any version or none."""
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
        """Run a program of the test's own in this bed, and return it when it is ready.

        ``ready`` is a URL that answers 200 or an async function that returns whether it is ready.
        ``env`` is added to the environment. The program and its children end with the bed; its output
        is in ``logs/<name>.log``. The name of an ended process may be used again.
        """
        if name in COMPONENTS or (name in self.processes and self.processes[name].running):
            raise ConfigError(f"testbed {self.name!r} already has a process {name!r}: choose another name")
        check = url_ready(ready) if isinstance(ready, str) else ready
        bound = self.components.bound
        return await self.run(Command(name, argv, self.folder, env or {}, check, ready_s, bound))

    async def run(self, command: Command) -> Process:
        """Start a command as a process of this bed."""
        process = Process(command)
        self.processes[command.name] = process
        await process.start()
        return process

    async def halt(self) -> None:
        """End all processes: spawned ones with SIGTERM first, components at once."""
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
        """End all processes and remove the data; a named bed's logs stay."""
        try:
            await self.halt()
        finally:
            self.home.release()

    async def leave_up(self) -> None:
        """Let the bed outlive this process; only for beds made with ``bound=False``."""
        if self.components.bound:
            raise TestbedError(f"testbed {self.name!r} ends with this process: make it with bound=False")
        await self.api.close()
        self.home.leave_up({"kubeconfig": str(self.kubeconfig), "api_url": self.api_url})

    async def _schedulable(self, names: set[str]) -> bool:
        ready = {node["metadata"]["name"] for node in await self.api.items(_NODES) if not is_tainted(node)}
        return names <= ready

    async def _held(self, uids: Mapping[str, str]) -> bool:
        """Whether kwok has a lease for each of these very nodes, by name; without one it runs no pod."""
        leases = [each["metadata"] for each in await self.api.items(_LEASES)]
        owned = {(each["name"], owner["uid"]) for each in leases for owner in each.get("ownerReferences", ())}
        return uids.items() <= owned


def is_tainted(node: Object) -> bool:
    """Whether Kubernetes still keeps pods away from a node that was not Ready."""
    return any(taint["key"] == _NOT_READY for taint in node["spec"].get("taints", ()))
