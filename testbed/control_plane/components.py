"""The components of a testbed as processes: binary, command line, readiness.

What belongs here: combining ``commands`` with installed binaries and health checks. What does
not: the start order (``testbed.control_plane.start``).
"""

import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from devkit.ports import LOOPBACK
from devkit.process import Command, Ready
from gpushare.errors import ApiError
from testbed.control_plane import audit, commands
from testbed.control_plane.api import read_text
from testbed.control_plane.layout import BedLayout
from testbed.control_plane.scheduler import SchedulerSpec
from testbed.control_plane.stages import kwok_config, read_stages
from testbed.programs.binaries import Installed


@dataclass(frozen=True)
class Components:
    """Returns the commands of the components of a testbed, and writes their configuration files."""

    layout: BedLayout
    tools: Mapping[str, Installed]
    context: ssl.SSLContext
    bound: bool = True

    def etcd(self) -> Command:
        """Return etcd, in an empty folder."""
        self.layout.data.mkdir(mode=0o700, parents=True)
        argv = commands.etcd(self.layout, self.tools["etcd"].path)
        return self._command("etcd", argv, etcd_ready(self.layout))

    def kube_apiserver(self, flags: Sequence[str] = (), *, with_audit: bool) -> Command:
        """Return the API server with additional flags; with ``with_audit`` it logs all writes."""
        self.layout.audit_policy.write_text(json.dumps(audit.policy()))
        binary = self.tools["kube-apiserver"].path
        argv = [*commands.kube_apiserver(self.layout, binary, audit=with_audit), *flags]
        return self._command("kube-apiserver", argv, self._url_ready(f"{self.layout.api_url}/readyz"))

    def kube_controller_manager(self, flags: Sequence[str] = ()) -> Command:
        """Return the controller manager with additional flags."""
        binary = self.tools["kube-controller-manager"].path
        argv = commands.kube_controller_manager(self.layout, binary, flags)
        health = f"https://{LOOPBACK}:{self.layout.ports.controller_manager}/healthz"
        return self._command("kube-controller-manager", argv, self._url_ready(health))

    def kube_scheduler(self, spec: SchedulerSpec) -> Command:
        """Write the configuration of the scheduler of ``spec``, and return it."""
        layout = self.layout
        layout.scheduler_config.write_text(spec.text(layout.kubeconfig("kube-scheduler")))
        binary = self.tools[spec.tool].path
        argv = (
            commands.kube_scheduler_legacy(layout, binary)
            if spec.legacy
            else commands.kube_scheduler(layout, binary, spec.gates)
        )
        return self._command(
            "kube-scheduler", argv, self._url_ready(f"{scheduler_url(layout, spec)}/healthz")
        )

    def kwok(self) -> Command:
        """Write the configuration of kwok, and return it."""
        layout, installed = self.layout, self.tools["kwok"]
        layout.kwok_config.write_text(kwok_config(read_stages(installed.stages)))
        argv = commands.kwok(layout, installed.path)
        return self._command("kwok", argv, url_ready(f"http://{LOOPBACK}:{layout.ports.kwok}/healthz"))

    def _command(self, name: str, argv: Sequence[str], ready: Ready) -> Command:
        return Command(name, argv, self.layout.folder, ready=ready, bound=self.bound)

    def _url_ready(self, url: str) -> Ready:
        return url_ready(url, self.context)


def scheduler_url(layout: BedLayout, spec: SchedulerSpec) -> str:
    """Return the URL of the health and metrics of the scheduler."""
    scheme = "http" if spec.legacy else "https"
    return f"{scheme}://{LOOPBACK}:{layout.ports.scheduler}"


def url_ready(url: str, context: ssl.SSLContext | None = None) -> Ready:
    """Return a check that ``url`` responds with 200."""

    async def ready() -> bool:
        try:
            await read_text(url, context)
        except ApiError:
            return False
        return True

    return ready


def etcd_ready(layout: BedLayout) -> Ready:
    """Return a check that the etcd of this testbed responds, and not another one that took its port."""

    async def ready() -> bool:
        try:
            answer = await read_text(f"{layout.etcd_url}/v3/cluster/member/list", post="{}")
        except ApiError:
            return False
        return any(member.get("name") == layout.folder.name for member in json.loads(answer)["members"])

    return ready
