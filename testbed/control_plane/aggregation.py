"""Aggregated API servers: processes on loopback that serve an API group behind the API server of a testbed.

What belongs here: registering them. What does not: starting them, and what they serve.
"""

import base64
from collections.abc import Mapping
from pathlib import Path

from devkit.waiting import until
from testbed.control_plane.bed import Bed

TO_PODS = ("--enable-aggregator-routing=true",)
"""Flags of the API server beside real kubelets: without a kube-proxy of its own, it connects to the pods."""
_NAMESPACE = "kube-system"
_API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


def service_host(name: str) -> str:
    """Return the host name that the API server expects in the certificate of an aggregated server."""
    return f"{name}.{_NAMESPACE}.svc"


async def register_api(bed: Bed, name: str, groups: Mapping[str, Mapping[str, int]], port: int) -> None:
    """Forward requests for groups to a port on loopback, and wait until the API server does.

    ``groups`` have the priority of each version; the highest is preferred. The authority of the testbed
    signed the certificate of the server, for ``service_host(name)``. The Service has the type ExternalName,
    because an endpoint must not have a loopback address.
    """
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
    await bed.api.create(
        f"/api/v1/namespaces/{_NAMESPACE}/services", {"metadata": {"name": name}, "spec": spec}
    )
    found = [(group, *each) for group, versions in groups.items() for each in versions.items()]
    for group, version, priority in found:
        await bed.api.create(_API_SERVICES, _api_service(name, group, version, priority, port, bed.ca_file))
    for group, version, _ in found:
        await until_available(bed, f"{version}.{group}")


async def until_available(bed: Bed, name: str, timeout_s: float = 30.0) -> None:
    """Wait until the APIService ``name`` is available."""

    async def available() -> bool:
        status = (await bed.api.get(f"{_API_SERVICES}/{name}")).get("status", {})
        states = {each["type"]: each["status"] for each in status.get("conditions", ())}
        return states.get("Available") == "True"

    await until(available, f"the API {name} to be available", timeout_s)


def _api_service(
    name: str, group: str, version: str, priority: int, port: int, ca_file: Path
) -> dict[str, object]:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}"},
        "spec": {
            "service": {"name": name, "namespace": _NAMESPACE, "port": port},
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": priority,
            "caBundle": base64.b64encode(ca_file.read_bytes()).decode(),
        },
    }
