"""A FAKE of the kubelet's PodResources API, over real gRPC and a real socket.

For readers of that API where no kubelet runs; with real kubelets the real one is read.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from gpushare.adapters.kubelet.api import podresources_pb2 as api
from gpushare.adapters.kubelet.podresources import PodResources
from gpushare.adapters.kubelet.services import POD_RESOURCES, add_to_server


def pod(name: str, *containers: api.ContainerResources, namespace: str = "ml") -> api.PodResources:
    return api.PodResources(name=name, namespace=namespace, containers=containers)


def container(name: str, *devices: tuple[str, list[str]]) -> api.ContainerResources:
    entries = [api.ContainerDevices(resource_name=resource, device_ids=ids) for resource, ids in devices]
    return api.ContainerResources(name=name, devices=entries)


class Lister:
    """A FAKE of the kubelet's lister: returns the configured answer, or does not return."""

    def __init__(self, *pods: api.PodResources) -> None:
        self.pods = pods
        self.silent = False

    async def List(self, request: Any, context: Any) -> api.ListPodResourcesResponse:  # noqa: ARG002, N802 - the protocol's
        if self.silent:
            await asyncio.Event().wait()
        return api.ListPodResourcesResponse(pod_resources=self.pods)


@asynccontextmanager
async def served(folder: Path, lister: Lister) -> AsyncIterator[PodResources]:
    """A client of the lister, which listens on ``kubelet.sock`` in the folder."""
    server = grpc.aio.server()
    add_to_server(POD_RESOURCES, lister, server)
    server.add_insecure_port(f"unix:{folder}/kubelet.sock")
    await server.start()
    try:
        yield PodResources(folder / "kubelet.sock", timeout_s=5)
    finally:
        await server.stop(0)
