"""The key of the seals: read from its Secret, or created by the first replica."""

import asyncio
import secrets
from http import HTTPStatus
from typing import Final

from gpushare.errors import ApiError
from gpushare.extender.handlers import SyncStatus
from gpushare.extender.seal import Sealer
from gpushare.ports import KubeApi, StoredKey

_RESOURCE: Final = "secrets"
_KEY_BYTES: Final = 32
_RETRY_S: Final = 1.0


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


async def _key(api: KubeApi) -> StoredKey:
    stored = await api.read_key()
    if stored is not None:
        return stored
    try:
        return await api.create_key(secrets.token_bytes(_KEY_BYTES))
    except ApiError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        # Another replica created it first; the next attempt reads its key.
        raise ApiError(f"the key was created by another extender: {error}", reason="Retry") from error
