"""The key of the seals: read from its Secret, which the first replica creates and fills.

A replica that knows a key writes it into a Secret that was deleted or created again, so that the seals of
existing pods stay valid.
"""

import asyncio
import secrets
from typing import Final

import structlog

from gpushare.errors import ApiError
from gpushare.extender.api import ExtenderApi
from gpushare.extender.cluster import ClusterState
from gpushare.extender.freshness import WITHOUT_STATUS, SyncStatus
from gpushare.extender.seal import Sealer

log = structlog.get_logger()

_RESOURCE: Final = "secrets"
_KEY_BYTES: Final = 32
_RETRY_S: Final = 1.0
_PERIOD_S: Final = 5.0


async def load_sealer(api: ExtenderApi, sync_status: SyncStatus) -> Sealer:
    """The sealer, once the API server answers; without a key if there can be no usable Secret."""
    while True:
        try:
            sealer = await _sealer(api, Sealer())
        except ApiError as error:
            sync_status.failed(_RESOURCE, error, _RETRY_S)
            if error.status in WITHOUT_STATUS:
                return Sealer()
            await asyncio.sleep(_RETRY_S)
        else:
            sync_status.synced(_RESOURCE)
            return sealer


async def follow_key(
    api: ExtenderApi, sync_status: SyncStatus, cluster: ClusterState, *, period_s: float = _PERIOD_S
) -> None:
    """Read the Secret again and again, until cancelled: it may be deleted or overwritten."""
    reported = ""
    while True:
        await asyncio.sleep(period_s)
        try:
            sealer = await _sealer(api, cluster.sealer)
        except ApiError as error:
            if str(error) != reported:
                _report(error, sync_status, cluster, period_s)
            reported = str(error)
            continue
        reported = ""
        # Compared with its time: pods from before that time need no seal.
        if sealer != cluster.sealer:
            log.info("seal_key_changed", written=sealer.made)
            sync_status.synced(_RESOURCE)
            await cluster.slices.run(cluster.change_sealer_steps(sealer))


def _report(error: ApiError, sync_status: SyncStatus, cluster: ClusterState, retry_s: float) -> None:
    """Report a degraded mode only without a key: a known one stays in use."""
    if cluster.sealer.key:
        log.warning("seal_key_not_read", reason=str(error))
    else:
        sync_status.failed(_RESOURCE, error, retry_s)


async def _sealer(api: ExtenderApi, known: Sealer) -> Sealer:
    """The sealer with the key of the Secret. An empty Secret gets the known key, or a new one.

    Raises ApiError, with status 409 if another replica wrote first.
    """
    stored = await api.read_key()
    if not stored.key:
        stored = await api.write_key(known.key or secrets.token_bytes(_KEY_BYTES), stored.version)
    return Sealer(stored.key, stored.written)
