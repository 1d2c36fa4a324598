"""The kubelet's gRPC services on unix sockets, as clients and as servers.

Names and messages come from the descriptors of the ``.proto`` files in ``api``.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from gpushare.adapters.kubelet.api import deviceplugin_pb2, podresources_pb2
from gpushare.errors import KubeletError

MAX_MESSAGE_BYTES: Final = 64 * 2**20
"""Enough for the device IDs of a node with 8 GPUs in MiB; gRPC's default limit is 4 MiB."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # After a kubelet restart, the backoff of an earlier channel must not apply.
    ("grpc.use_local_subchannel_pool", 1),
)

DEVICE_PLUGIN: Final = deviceplugin_pb2.DESCRIPTOR.services_by_name["DevicePlugin"]
REGISTRATION: Final = deviceplugin_pb2.DESCRIPTOR.services_by_name["Registration"]
POD_RESOURCES: Final = podresources_pb2.DESCRIPTOR.services_by_name["PodResourcesLister"]


@asynccontextmanager
async def kubelet_channel(socket: Path, what: str) -> AsyncIterator[grpc.aio.Channel]:
    """Open a channel for one call. gRPC errors become KubeletError with the prefix ``what``."""
    try:
        async with grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
            yield channel
    except grpc.aio.AioRpcError as error:
        raise KubeletError(f"{what}: {socket}: {error.details()} ({error.code().name})") from error


def stub_of(service: ServiceDescriptor, channel: grpc.aio.Channel) -> SimpleNamespace:
    """The methods of a service on this channel, by their names in the ``.proto`` file."""
    stub = SimpleNamespace()
    for method in service.methods:
        made = channel.unary_stream if method.server_streaming else channel.unary_unary
        call = made(
            f"/{service.full_name}/{method.name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        setattr(stub, method.name, call)
    return stub


def add_to_server(service: ServiceDescriptor, servicer: Any, server: grpc.aio.Server) -> None:
    """Serve those methods of a service that ``servicer`` has; others are unimplemented for clients."""
    handlers = {}
    for method in service.methods:
        if serve := getattr(servicer, method.name, None):
            made = (
                grpc.unary_stream_rpc_method_handler
                if method.server_streaming
                else grpc.unary_unary_rpc_method_handler
            )
            handlers[method.name] = made(
                serve,
                request_deserializer=GetMessageClass(method.input_type).FromString,
                response_serializer=GetMessageClass(method.output_type).SerializeToString,
            )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))
