"""The annotations that publish a placement: written by the bind, read at start and by the command line.

``claim_of`` is strict, because its result is trusted: all annotations must agree with each other and with the
pod's limits. The *shares* of a pod are ``((GPU index, Amount), …)`` in index order.
"""

from collections import Counter
from collections.abc import Collection, Mapping

import msgspec

from gpushare.contract import (
    ANN_ALLOCATION,
    ANN_ASSIGNED,
    ANN_ASSUME_TIME,
    ANN_CORE_ALLOCATION,
    ANN_DEV,
    ANN_IDX,
    ANN_POD,
)
from gpushare.model.demand import Amount, ContainerDemand, ContainerKind, Demand
from gpushare.model.quantity import parse_small

Shares = tuple[tuple[int, Amount], ...]

_PerContainer = dict[str, dict[str, int]]

_decode_json = msgspec.json.Decoder(_PerContainer).decode
_decode_assigned = msgspec.json.Decoder(dict[str, _PerContainer]).decode


def even_shares(demand: Demand, cards: tuple[int, ...]) -> Shares:
    """The shares of a demand on the chosen GPUs."""
    return tuple((index, demand.per_card) for index in sorted(cards))


def bind_annotations(demand: Demand, shares: Shares, card_units: int, now_ns: int) -> dict[str, str]:
    """The annotations of a Binding. ``card_units`` are the units of the GPU with the lowest index."""
    cards = [index for index, _ in shares]
    main = _main_containers(demand)
    annotations = {
        ANN_IDX: str(cards[0]),
        ANN_DEV: str(card_units),
        ANN_POD: str(demand.mem),
        ANN_ASSIGNED: "false",
        ANN_ASSUME_TIME: str(now_ns),
        ANN_ALLOCATION: _allocation(demand, cards, [each.mem for each in main], demand.mem),
    }
    if demand.core:
        annotations[ANN_CORE_ALLOCATION] = _allocation(
            demand, cards, [each.core for each in main], demand.core
        )
    return annotations


def _main_containers(demand: Demand) -> list[ContainerDemand]:
    return [each for each in demand.containers if each.kind is ContainerKind.MAIN]


def _allocation(demand: Demand, cards: list[int], amounts: list[int], total: int) -> str:
    """JSON: container index → GPU index → amount, for the amounts of the regular containers.

    An entry after the last container has the amount that init containers and sidecars reserve beyond the
    regular containers, so that the entries of a GPU add up to the pod's reservation. Containers with the
    amount 0 are omitted, unless all have it, because the GPUs would be omitted with them.
    """
    beyond = total - sum(amounts)
    entries = dict(enumerate([*amounts, beyond] if beyond else amounts))
    nothing = not any(entries.values())
    return msgspec.json.encode(
        {str(i): {str(card): n // demand.cards for card in cards} for i, n in entries.items() if n or nothing}
    ).decode()


def claim_of(annotations: Mapping[str, str], demand: Demand) -> Shares | None:
    """The shares in a bound pod's annotations; None if they are absent, invalid or inconsistent.

    A bind writes the index and the amount, and since ACK's own scheduler the allocation; that scheduler
    writes only the latter. A bind of a pod without core percent writes no core annotation, so one that its
    owner wrote is ignored.
    """
    per_card = _cards_of(annotations, demand)
    if not per_card:
        return None
    if ANN_IDX not in annotations and len(per_card) != demand.cards:
        return _of_containers(annotations, demand)
    if len(per_card) != demand.cards or any(amount != demand.per_card.mem for amount in per_card.values()):
        return None
    core = annotations.get(ANN_CORE_ALLOCATION) if demand.core else None
    if core is not None and parse_allocation(core) != dict.fromkeys(per_card, demand.per_card.core):
        return None
    return even_shares(demand, tuple(per_card))


def _of_containers(annotations: Mapping[str, str], demand: Demand) -> Shares | None:
    """The shares of a pod whose containers have different GPUs, as ACK's own scheduler places them.

    None if an entry is not what its container requests, so that the text is about another pod.
    """
    main = _main_containers(demand)
    mem = _amounts(annotations.get(ANN_ALLOCATION), [each.mem for each in main], demand.mem)
    core: dict[int, int] | None = {}
    if demand.core:
        core = _amounts(annotations.get(ANN_CORE_ALLOCATION), [each.core for each in main], demand.core)
    if mem is None or core is None or not core.keys() <= mem.keys():
        return None
    return tuple((index, Amount(units, core.get(index, 0))) for index, units in sorted(mem.items()))


def _amounts(text: str | None, amounts: list[int], total: int) -> dict[int, int] | None:
    """The amounts on each GPU if they are those of the containers, by index."""
    try:
        per_container = _decode_json(text or "")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    requested = {str(index): amount for index, amount in enumerate(amounts) if amount}
    found = {index: sum(cards.values()) for index, cards in per_container.items() if any(cards.values())}
    return _per_card(per_container) if found == requested and sum(amounts) == total else None


def _cards_of(annotations: Mapping[str, str], demand: Demand) -> dict[int, int] | None:
    """Units per GPU; None if index, amount and allocation contradict each other."""
    text = annotations.get(ANN_ALLOCATION)
    per_card = parse_allocation(text) if text is not None else None
    if ANN_IDX not in annotations and ANN_POD not in annotations:
        return per_card
    index = parse_small(annotations.get(ANN_IDX))
    if index is None or annotations.get(ANN_POD) != str(demand.mem):
        return None
    if text is None:
        return {index: demand.mem}
    return per_card if per_card and min(per_card) == index else None


def known_shares(
    demand: Demand, claim: Shares | None, assigned: Mapping[int, int] | None, indices: Collection[int]
) -> Shares | None:
    """The shares of a pod on a node with GPUs of these indices; None if its GPUs are unknown.

    ``assigned`` is what the node agent published for the pod, None if nothing; it outranks the claim, and its
    number of GPUs the label, which can be edited. The amounts come from the pod's limits: what disagrees with
    them, or names another GPU, is ignored.
    """
    if assigned is not None:
        shares = shares_from_units(assigned, demand.core)
        fits = _is_even(shares, demand, len(shares))
    else:
        shares = claim or ()
        fits = _is_even(shares, demand, demand.cards) or _is_of_containers(shares, demand)
    return shares if fits and all(index in indices for index, _ in shares) else None


def _is_even(shares: Shares, demand: Demand, parts: int) -> bool:
    """Whether the demand is divided into equal parts, as our binds divide it."""
    return len(shares) == parts > 0 and all(
        share.mem * parts == demand.mem and share.core == demand.core // parts for _, share in shares
    )


def _is_of_containers(shares: Shares, demand: Demand) -> bool:
    """Whether the containers of a pod without the label for several GPUs may have these different GPUs."""
    total = Amount(sum(share.mem for _, share in shares), sum(share.core for _, share in shares))
    return demand.cards == 1 and len(shares) > 1 and total == (demand.mem, demand.core)


def parse_allocation(text: str) -> dict[int, int] | None:
    """Units per GPU, summed over the containers; None if the text is not an allocation."""
    try:
        return _per_card(_decode_json(text))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def _per_card(per_container: _PerContainer) -> dict[int, int] | None:
    """The sums of all containers; None if an index or an amount is invalid."""
    total: Counter[int] = Counter()
    for text, amount in (item for cards in per_container.values() for item in cards.items()):
        index = parse_small(text)
        if index is None or amount < 0:
            return None
        total[index] += amount
    return dict(total)


def parse_assigned(text: str) -> dict[str, dict[int, int]] | None:
    """The node agent's allocations: pod UID → GPU index → units; None if the text is invalid."""
    try:
        pods = _decode_assigned(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    result: dict[str, dict[int, int]] = {}
    for uid, containers in pods.items():
        per_card = _per_card(containers)
        if per_card is None:
            return None
        result[uid] = per_card
    return result


def shares_from_units(per_card: Mapping[int, int], core: int = 0) -> Shares:
    """Shares for the given units per GPU; ``core`` percent is divided evenly."""
    return tuple((index, Amount(units, core // len(per_card))) for index, units in sorted(per_card.items()))
