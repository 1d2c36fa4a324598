"""The CPU and memory of nodes after any order of events, compared with a sum over all pods."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpushare.model.resources import NO_RESOURCES, Load, Resources
from gpushare.scheduling.events import LedgerEvent, LoadObserved, PodDeleted, PodObserved
from gpushare.scheduling.ledger import apply
from tests.support.builders.scheduling import cluster, node, pod

OFFERED = Resources(10_000, 10_000)
uids = st.sampled_from("abcd")
places = st.sampled_from(("n", "m", None))
amounts = st.builds(Resources, st.integers(0, 5000), st.integers(0, 5000))
observed = st.builds(LoadObserved, uids, st.builds(Load, places, amounts))
events = st.lists(
    st.one_of(
        observed,
        observed,
        st.builds(PodDeleted, uids),
        st.builds(lambda uid, at: PodObserved(pod(uid, at=at)), uids, st.sampled_from("nm")),
    )
)


def recounted(happened: list[LedgerEvent]) -> dict[str, Load]:
    """The load of each observed pod, by the rules: the last node counts, and requests stay known."""
    loads: dict[str, Load] = {}
    reserved: dict[str, str] = {}
    for event in happened:
        match event:
            case LoadObserved(uid, load):
                loads[uid] = load if load.node else Load(reserved.get(uid), load.requested)
            case PodDeleted(uid):
                loads.pop(uid, None)
                reserved.pop(uid, None)
            case PodObserved(who):
                assert who.node
                reserved[who.uid] = who.node
                if known := loads.get(who.uid):
                    loads[who.uid] = Load(who.node, known.requested)
    return loads


def free(loads: dict[str, Load], name: str) -> Resources:
    taken = NO_RESOURCES
    for load in loads.values():
        if load.node == name:
            taken = taken.plus(load.requested)
    return OFFERED.minus(taken)


@given(events, st.booleans())
def test_the_free_amounts_are_the_offer_without_the_requests_of_all_pods(
    happened: list[LedgerEvent],
    at_once: bool,  # noqa: FBT001 - hypothesis passes it by position
) -> None:
    ledger = cluster(*(replace(node(name, 14), allocatable=OFFERED) for name in "nm"))
    for some in [happened] if at_once else [[event] for event in happened]:
        ledger = apply(ledger, *some)
    loads = recounted(happened)
    assert {name: ledger.free(name) for name in "nm"} == {name: free(loads, name) for name in "nm"}
