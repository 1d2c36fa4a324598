"""Later readings of the GPUs never make the agent promise memory that a GPU does not have."""

from dataclasses import dataclass
from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.gpu_readings import Adopted, GpusInUse, adopt
from gpushare.deviceplugin.core.shared_gpus import SharedGpus, reason_against, shared_gpus
from gpushare.model.cards import Card, link_to
from gpushare.model.hardware import Gpu, Inventory, Link
from gpushare.model.options import MemoryUnit

UNIT = MemoryUnit.GIB
UUIDS = tuple("abcde")


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """Up to four GPUs in any order; some are unreadable, in MIG mode or closed to programs."""
    uuids = draw(st.permutations(UUIDS))[: draw(st.integers(0, 4))]
    readable = [draw(st.integers(0, 3)) > 0 for _ in uuids]
    gpus = tuple(
        Gpu(
            index,
            uuid,
            "T4",
            draw(st.sampled_from((512, 15079, 15079, 16130, 40536))),
            mig=draw(st.sampled_from((None, False, False, True))),
            compute_mode=draw(st.sampled_from(("Default", "Default", "Prohibited"))),
        )
        for index, uuid in enumerate(uuids)
        if readable[index]
    )
    links = {
        (one.index, other.index): draw(st.sampled_from(Link))
        for one, other in combinations(gpus, 2)
        if draw(st.booleans())
    }
    unreadable = {index: "GPU is lost" for index, good in enumerate(readable) if not good}
    return Inventory("580", None, gpus, links, unreadable)


@dataclass(frozen=True)
class Round:
    """One reading: what was shared before, what was found, and what is shared afterwards."""

    before: SharedGpus
    found: Inventory
    allocated: frozenset[str]
    adopted: Adopted

    @property
    def after(self) -> SharedGpus:
        return shared(self.adopted)

    @property
    def sound(self) -> dict[str, Card]:
        """The GPUs that take pods."""
        return {card.uuid: card for card in self.after.cards if card.healthy}

    @property
    def real(self) -> dict[str, Gpu]:
        return {gpu.uuid: gpu for gpu in self.found.gpus}


def shared(adopted: Adopted) -> SharedGpus:
    return shared_gpus(adopted.inventory, UNIT, unhealthy=adopted.unfit)


def read(now: Adopted, found: Inventory, allocated: frozenset[str]) -> Adopted:
    usage = GpusInUse([card.uuid for card in shared(now).cards], allocated)
    return adopt(now.inventory, found, usage, lambda gpu: reason_against(gpu, UNIT, refuse_unlisted=False))


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    """The last of several readings. Only GPUs that were shared have allocations."""
    now = Adopted(draw(inventories()))
    for _ in range(draw(st.integers(0, 3))):
        now = read(now, draw(inventories()), frozenset())
    before, found = shared(now), draw(inventories())
    cards = [card.uuid for card in before.cards]
    allocated = frozenset(uuid for uuid in cards if draw(st.booleans()))
    return Round(before, found, allocated, read(now, found, allocated))


@given(rounds())
def test_a_gpu_that_takes_pods_has_the_units_that_it_offers(each: Round) -> None:
    for uuid, card in each.sound.items():
        if card.index in each.found.unreadable:
            continue  # the health check decides
        assert card.units * 1024 <= each.real[uuid].mib
        assert not each.real[uuid].mig
        assert each.real[uuid].compute_mode == "Default"
        assert each.real[uuid].index == card.index


@given(rounds())
def test_the_size_of_a_gpu_with_allocations_does_not_change(each: Round) -> None:
    after = {card.uuid: card for card in each.after.cards}
    for card in each.before.cards:
        if card.uuid in each.allocated and card.uuid in after:
            assert (after[card.uuid].units, after[card.uuid].mib) == (card.units, card.mib)


@given(rounds())
def test_a_shared_gpu_leaves_the_list_only_if_another_has_its_index(each: Round) -> None:
    after = {card.uuid for card in each.after.cards}
    indices = {gpu.index for gpu in each.found.gpus}
    for card in each.before.cards:
        assert card.uuid in after or (card.index in indices and card.uuid not in each.real)


@given(rounds())
def test_no_two_gpus_have_one_index_or_uuid(each: Round) -> None:
    gpus = each.adopted.inventory.gpus
    assert len({gpu.index for gpu in gpus}) == len({gpu.uuid for gpu in gpus}) == len(gpus)
    assert not {gpu.index for gpu in gpus} & each.adopted.inventory.unreadable.keys()


@given(rounds())
def test_the_same_reading_again_changes_nothing(each: Round) -> None:
    assert read(each.adopted, each.found, each.allocated) == each.adopted


@given(rounds())
def test_the_links_are_those_of_the_last_reading_whatever_index_a_gpu_had(each: Round) -> None:
    for one, other in permutations(each.after.cards, 2):
        real = [each.real.get(card.uuid) for card in (one, other)]
        low, high = sorted(gpu.index if gpu else -1 for gpu in real)
        assert link_to(one.links, other.index) == each.found.links.get((low, high))


@given(rounds())
def test_every_unfit_gpu_is_listed_with_a_reason(each: Round) -> None:
    listed = {card.uuid for card in each.after.cards}
    assert each.adopted.unfit.keys() <= listed
    assert all(each.adopted.unfit.values())
