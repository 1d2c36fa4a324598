"""The key of the seals: read, or created by the first replica."""

from collections import deque

from structlog.testing import capture_logs

from gpushare.extender.handlers import SyncStatus
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.seal import Sealer
from gpushare.extender.seal_key import load_sealer
from gpushare.ports import StoredKey
from tests.unit.extender.fakes import FakeApi, refused

STORED = StoredKey(b"k" * 32, "2025-01-01T00:00:00Z")


async def loaded(api: FakeApi) -> Sealer:
    return await load_sealer(api, SyncStatus(ExtenderMetrics()))


async def test_a_key_that_is_stored_is_used_with_its_age() -> None:
    assert await loaded(FakeApi(key=STORED)) == Sealer(STORED.key, STORED.created)


async def test_the_first_replica_makes_a_key_and_the_next_one_reads_it() -> None:
    api = FakeApi()
    made = await loaded(api)
    assert len(made.key) == 32
    assert await loaded(api) == made


async def test_without_permission_for_the_secret_nothing_is_sealed() -> None:
    with capture_logs() as logs:
        assert await loaded(FakeApi(key_errors=deque([refused(403)]))) == Sealer()
    assert [(entry["event"], entry["right"]) for entry in logs] == [("reduced_mode", "secrets")]
    assert await loaded(FakeApi(key_errors=deque([None, refused(403)]))) == Sealer()
