"""Seals: which claims on bound pods are trusted after a restart."""

from dataclasses import replace

import pytest

from gpushare.extender.cluster import ClusterState
from gpushare.extender.seal import Sealer
from gpushare.model.annotations import even_shares
from gpushare.model.changes import Upserted
from gpushare.model.modes import SHARING, Mode
from gpushare.model.objects import Pod
from tests.support.builders.scheduling import demand, free, node, pod

KEY_MADE = "2026-01-01T00:00:00Z"
LATER = "2026-01-02T00:00:00Z"
SEALER = Sealer(b"k" * 32, KEY_MADE)


def bound(*, card: int = 0, created: str = LATER, sealer: Sealer = SEALER, mode: Mode | None = None) -> Pod:
    """A pod as the API returns it after our bind."""
    plain = replace(pod("a", 4, at="n", card=card, mode=mode), created=created)
    assert plain.claim is not None
    return replace(plain, seal=sealer.seal("a", "n", plain.claim, mode))


def test_a_sealed_claim_is_accepted() -> None:
    assert SEALER.checked(bound()) == bound()


def test_a_claim_that_was_edited_is_void() -> None:
    edited = replace(bound(), claim=pod("a", 4, at="n", card=1).claim)
    assert SEALER.checked(edited).claim is None


def test_only_the_claim_is_dropped_from_a_pod_with_a_wrong_seal() -> None:
    edited = replace(bound(), claim=pod("a", 4, at="n", card=1).claim)
    assert SEALER.checked(edited) == replace(edited, claim=None)


@pytest.mark.parametrize("mode", sorted(SHARING))
def test_a_sealed_mode_is_accepted(mode: Mode) -> None:
    assert SEALER.checked(bound(mode=mode)) == bound(mode=mode)


@pytest.mark.parametrize("annotation", [None, Mode.CGPU])
def test_the_seal_covers_the_mode_regardless_of_the_annotation(annotation: Mode | None) -> None:
    assert SEALER.checked(replace(bound(mode=Mode.SHARE), mode=annotation)) == bound(mode=Mode.SHARE)


def test_an_edited_claim_does_not_invalidate_the_mode() -> None:
    """Nor does one that the node agent has corrected."""
    edited = replace(bound(mode=Mode.SHARE), claim=pod("a", 4, at="n", card=1).claim)
    assert SEALER.checked(edited) == replace(edited, claim=None)
    assert SEALER.checked(replace(edited, claim=None, mode=None)).mode is Mode.SHARE


@pytest.mark.parametrize("seal", [None, "", ".", f"{'0' * 32}.{'0' * 32}"])
def test_a_mode_without_a_valid_seal_is_unknown(seal: str | None) -> None:
    found = SEALER.checked(replace(bound(mode=Mode.SHARE), seal=seal))
    assert (found.claim, found.mode) == (None, None)


def test_the_gpus_of_a_pod_whose_mode_is_not_sealed_are_accepted_and_its_mode_is_not() -> None:
    found = SEALER.checked(replace(bound(), mode=Mode.SHARE))
    assert found == bound()


def test_pods_older_than_the_key_keep_their_mode_without_a_seal() -> None:
    old = replace(bound(created="2025-12-31T23:59:59Z", mode=Mode.MPS), seal=None)
    assert SEALER.checked(old) == old


@pytest.mark.parametrize("stolen", [{"node": "m"}, {"uid": "b"}])
def test_a_seal_is_valid_for_one_pod_on_one_node(stolen: dict[str, str]) -> None:
    assert SEALER.checked(replace(bound(), **stolen)).claim is None  # type: ignore[arg-type]


@pytest.mark.parametrize("seal", [None, "", "0" * 32])
def test_a_claim_without_a_valid_seal_is_void(seal: str | None) -> None:
    assert SEALER.checked(replace(bound(), seal=seal)).claim is None


def test_a_seal_of_another_key_is_invalid() -> None:
    assert SEALER.checked(bound(sealer=Sealer(b"x" * 32, KEY_MADE))).claim is None


def test_a_seal_that_is_no_ascii_is_invalid_and_no_crash() -> None:
    assert SEALER.checked(replace(bound(), seal="sealé")).claim is None


def test_pods_older_than_the_key_are_accepted_without_a_seal() -> None:
    old = replace(bound(created="2025-12-31T23:59:59Z"), seal=None)
    assert SEALER.checked(old).claim == old.claim


def test_a_pod_as_old_as_the_key_needs_a_seal() -> None:
    assert SEALER.checked(replace(bound(created=KEY_MADE), seal=None)).claim is None


def test_without_a_key_every_claim_is_accepted_and_nothing_is_sealed() -> None:
    unsealed = replace(bound(), seal=None)
    assert Sealer().checked(unsealed) == unsealed
    assert Sealer().seal("a", "n", even_shares(demand(4), (0,))) is None


def test_a_pod_that_is_not_bound_is_unchanged() -> None:
    pending = replace(pod("a", 4), created=LATER)
    assert SEALER.checked(pending) is pending


def test_a_seal_fits_an_annotation_and_depends_on_every_field() -> None:
    shares = even_shares(demand(4), (0,))
    seals = {
        SEALER.seal("a", "n", shares),
        SEALER.seal("b", "n", shares),
        SEALER.seal("a", "m", shares),
        SEALER.seal("a", "n", even_shares(demand(4), (1,))),
        SEALER.seal("a", "n", even_shares(demand(4, core=5), (0,))),
        SEALER.seal("an", "", shares),
        *(SEALER.seal("a", "n", shares, mode) for mode in (Mode.SHARE, Mode.CGPU)),
        Sealer(b"x" * 32, KEY_MADE).seal("a", "n", shares),
    }
    assert len(seals) == 9
    assert all(seal and all(len(part) == 32 and part.isalnum() for part in seal.split(".")) for seal in seals)


def test_in_the_cluster_an_edited_claim_counts_on_every_gpu_and_a_sealed_one_on_its_own() -> None:
    cluster = ClusterState()
    cluster.sealer = SEALER
    cluster.change_nodes([Upserted("n", node("n", 14, 14))])
    cluster.see_pod(bound(card=1))
    assert free(cluster.ledger, "n") == [14, 10]
    cluster.see_pod(replace(pod("b", 2, at="n", card=0), created=LATER))
    assert free(cluster.ledger, "n") == [12, 8]
