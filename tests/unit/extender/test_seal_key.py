"""The key of the seals: read, or created by the first replica."""

from collections import deque
from dataclasses import replace

from structlog.testing import capture_logs

from gpushare.extender.handlers import SyncStatus
from gpushare.extender.metrics import ExtenderMetrics
from gpushare.extender.seal import Sealer
from gpushare.extender.seal_key import current_sealer, load_sealer
from gpushare.model.demand import Amount
from gpushare.ports import StoredKey
from tests.builders.scheduling import pod
from tests.unit.extender.fakes import FakeApi, refused

SHARES = ((0, Amount(4)),)
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


async def test_a_deleted_key_is_stored_again() -> None:
    api, sealer = FakeApi(), Sealer(STORED.key, STORED.created)
    assert await current_sealer(api, sealer) == sealer
    assert api.key is not None
    assert api.key.key == STORED.key


async def test_another_key_is_used_from_then_on_and_seals_of_the_first_one_stay_valid() -> None:
    first = Sealer(STORED.key, STORED.created)
    sealer = await current_sealer(FakeApi(key=StoredKey(b"n" * 32, "2026-05-05T00:00:00Z")), first)
    (sealed_before, sealed_since) = (each.seal("u", "n", SHARES) for each in (first, sealer))
    assert sealed_before != sealed_since
    for seal in (sealed_before, sealed_since):
        bound = replace(pod("u", 4), node="n", claim=SHARES, seal=seal, created="2026-06-06T00:00:00Z")
        assert sealer.checked(bound) == bound
    assert sealer.made == STORED.created


async def test_a_key_that_cannot_be_read_again_stays_in_use() -> None:
    sealer = Sealer(STORED.key, STORED.created)
    with capture_logs() as logs:
        assert await current_sealer(FakeApi(key_errors=deque([refused(500)])), sealer) == sealer
    assert [entry["event"] for entry in logs] == ["seal_key_unread"]


async def test_without_a_key_none_is_stored() -> None:
    api = FakeApi()
    assert await current_sealer(api, Sealer()) == Sealer()
    assert api.key is None
