"""Calls to the kubelet's unix sockets: one channel per call, errors in our own terms."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import grpc

from gpushare.errors import KubeletError

MAX_MESSAGE_BYTES: Final = 64 * 2**20
"""Enough for every device ID of a node of 8 cards in MiB; gRPC's own limit is 4 MiB."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # A kubelet that was away must not be met with the back-off of an earlier channel.
    ("grpc.use_local_subchannel_pool", 1),
)


@asynccontextmanager
async def kubelet_channel(socket: Path, what: str) -> AsyncIterator[grpc.aio.Channel]:
    """A channel for one call. What gRPC raises inside becomes KubeletError that begins with ``what``."""
    try:
        async with grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
            yield channel
    except grpc.aio.AioRpcError as error:
        raise KubeletError(f"{what}: {socket}: {error.details()} ({error.code().name})") from error
