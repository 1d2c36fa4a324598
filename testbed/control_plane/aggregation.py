"""API servers behind the bed's API server: processes on this machine's loopback that serve an API group.

What belongs here: making one known. What does not: starting it, and what it serves.
"""

import base64
from collections.abc import Mapping
from pathlib import Path

from testbed.control_plane.bed import Bed
from testbed.system.waiting import until

_NAMESPACE = "kube-system"
_API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


def service_host(name: str) -> str:
    """Return the name by which the API server checks the certificate of a server behind it."""
    return f"{name}.{_NAMESPACE}.svc"


async def register_api(bed: Bed, name: str, group: str, versions: Mapping[str, int], port: int) -> None:
    """Let the API server pass requests for a group on to a port of loopback, and wait until it does.

    ``versions`` are names with their priorities, of which the highest is preferred. The server's certificate
    is of the bed's authority, for ``service_host(name)``. The Service is of type ExternalName: the address of
    an endpoint must not be a loopback address.
    """
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
    await bed.api.create(
        f"/api/v1/namespaces/{_NAMESPACE}/services", {"metadata": {"name": name}, "spec": spec}
    )
    for version, priority in versions.items():
        await bed.api.create(_API_SERVICES, _api_service(name, group, version, priority, port, bed.ca_file))
    for version in versions:
        await until_available(bed, f"{version}.{group}")


async def until_available(bed: Bed, name: str, timeout_s: float = 30.0) -> None:
    """Wait until the API server takes the API as served."""

    async def available() -> bool:
        status = (await bed.api.get(f"{_API_SERVICES}/{name}")).get("status", {})
        states = {each["type"]: each["status"] for each in status.get("conditions", ())}
        return states.get("Available") == "True"

    await until(available, f"the API {name} to be available", timeout_s)


async def unregister_api(bed: Bed, name: str, group: str, *versions: str) -> None:
    """Take a group away again."""
    for version in versions:
        await bed.api.delete(f"{_API_SERVICES}/{version}.{group}")
    await bed.api.delete(f"/api/v1/namespaces/{_NAMESPACE}/services/{name}")


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
