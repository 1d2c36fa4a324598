"""A FAKE of the API server of a cluster with one GPU node, on loopback."""

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from gpushare.contract import AGENT_NAME, EXTENDER_NAME, LABEL_GPUSHARE
from tests.support.builders.diagnosis import gpu_node
from tests.unit.cli.fakes import Api, call

SYSTEM = "/api/v1/namespaces/kube-system"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
LISTS = (
    "/apis/apps/v1/namespaces/kube-system/deployments",
    f"{SYSTEM}/services",
    "/apis/apiregistration.k8s.io/v1/apiservices",
    f"{ADMISSION}/validatingadmissionpolicies",
    f"{ADMISSION}/validatingadmissionpolicybindings",
    f"{SYSTEM}/configmaps",
    "/api/v1/pods",
)


def ours(component: str) -> Any:
    return {
        "metadata": {"name": component, "labels": {"component": component}},
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "main", "image": "x:1.2.3"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


class Cluster:
    """Answers by path, or the beginning of a path (``more``); a path without an answer is forbidden."""

    def __init__(self) -> None:
        lease = {
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00Z"}
        }
        self.answers: dict[str, Any] = {
            "/version": {"gitVersion": "v1.36.3"},
            "/api/v1/nodes": {"items": [gpu_node(labels={LABEL_GPUSHARE: "true"})]},
            f"{SYSTEM}/pods": {"items": [ours(EXTENDER_NAME), ours(AGENT_NAME)]},
            f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{EXTENDER_NAME}": lease,
            f"{SYSTEM}/pods/{EXTENDER_NAME}:12346/proxy/metrics": "gpushare_extender_leader 1.0\n",
            "/api/v1/nodes/gpu-1/proxy/metrics": "kubelet_cgroup_version 2\n",
            "/api/v1/nodes/gpu-1/proxy/configz": {"kubeletconfig": {"cpuManagerPolicy": "none"}},
            "/apis/authorization.k8s.io/v1/subjectaccessreviews": {"status": {"allowed": True}},
            **{path: {"items": []} for path in LISTS},
        }
        self.more: dict[str, Callable[[web.Request], Awaitable[web.Response]]] = {}
        self.methods: set[tuple[str, str]] = set()
        self.api = Api()

    async def doctor(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of ``doctor``."""
        return await call(self.api, "doctor", *arguments)

    async def probe(self, *arguments: str) -> tuple[int, str, str]:
        return await self.doctor("--probe", "-n", "ml", *arguments)

    async def answer(self, request: web.Request) -> web.Response:
        self.methods.add((request.method, request.path))
        for path, answer in self.more.items():
            if request.path.startswith(path):
                return await answer(request)
        found = self.answers.get(request.path)
        if found is None:
            body = {"message": f"no right to {request.path}", "reason": "Forbidden", "code": 403}
            return web.json_response(body, status=403)
        return web.Response(text=found) if isinstance(found, str) else web.json_response(found)
