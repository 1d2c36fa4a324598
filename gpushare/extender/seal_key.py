"""The key of the seals: read from its Secret, or created by the first replica.

The Secret is read again from time to time. If it was deleted, it is created with the key in use, so that the
seals stay valid; if it has another key, new seals use that one.
"""

import asyncio
import secrets
from http import HTTPStatus
from typing import Final

import structlog

from gpushare.errors import ApiError
from gpushare.extender.handlers import SyncStatus
from gpushare.extender.seal import Sealer
from gpushare.ports import KubeApi, StoredKey

log = structlog.get_logger()

_RESOURCE: Final = "secrets"
_KEY_BYTES: Final = 32
_RETRY_S: Final = 1.0
REREAD_S: Final = 10.0
"""The Secret is read so often: pods that are bound with a key that it no longer has count on every GPU for
replicas that start later, until the node agent has published their allocation."""


async def load_sealer(api: KubeApi, sync_status: SyncStatus) -> Sealer:
    """The sealer, once the API server answers; without a key if the right to the Secret is missing."""
    while True:
        try:
            stored = await _key(api)
            sync_status.synced(_RESOURCE)
            return Sealer(stored.key, stored.created)
        except ApiError as error:
            sync_status.failed(_RESOURCE, error, _RETRY_S)
            if error.status == HTTPStatus.FORBIDDEN:
                return Sealer()
            await asyncio.sleep(_RETRY_S)


async def current_sealer(api: KubeApi, sealer: Sealer) -> Sealer:
    """The sealer after reading the Secret again; the same one if that fails or if nothing has changed."""
    if not sealer.key:
        return sealer
    try:
        stored = await _key(api, sealer.key)
    except ApiError as error:
        log.warning("seal_key_unread", reason=str(error))
        return sealer
    if stored.key == sealer.key:
        return sealer
    log.warning("seal_key_replaced", created=stored.created)
    return sealer.with_key(stored.key)


async def _key(api: KubeApi, key: bytes = b"") -> StoredKey:
    """The stored key; if there is none, ``key`` or a random one is stored."""
    stored = await api.read_key()
    if stored is not None:
        return stored
    try:
        return await api.create_key(key or secrets.token_bytes(_KEY_BYTES))
    except ApiError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        # Another replica created it first; the next attempt reads its key.
        raise ApiError(f"the key was created by another extender: {error}", reason="Retry") from error
