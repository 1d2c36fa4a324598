"""Calls to the kubelet's unix sockets: one channel per call, errors as KubeletError."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import grpc

from gpushare.errors import KubeletError

MAX_MESSAGE_BYTES: Final = 64 * 2**20
"""Enough for the device IDs of a node with 8 GPUs in MiB; gRPC's default limit is 4 MiB."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # After a kubelet restart, the backoff of an earlier channel must not apply.
    ("grpc.use_local_subchannel_pool", 1),
)


@asynccontextmanager
async def kubelet_channel(socket: Path, what: str) -> AsyncIterator[grpc.aio.Channel]:
    """Open a channel for one call. gRPC errors become KubeletError with the prefix ``what``."""
    try:
        async with grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
            yield channel
    except grpc.aio.AioRpcError as error:
        raise KubeletError(f"{what}: {socket}: {error.details()} ({error.code().name})") from error
