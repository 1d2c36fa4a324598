"""What a pod requests of a node in all, as kube-scheduler counts it. Pure.

The rule is that of ``PodRequests`` in k8s.io/component-helpers/resource (1.37): the larger of the sum of
containers and sidecars, and of each init container plus the sidecars before it; then requests of the pod as
a whole, and the overhead of its RuntimeClass. GPU units are not here: the ledger counts them.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from gpushare.contract import MANAGED_RESOURCES
from gpushare.errors import InvalidRequest
from gpushare.model.quantity import parse_milli, parse_quantity
from gpushare.overview.objects import ClusterPodSpec

CPU: Final = "cpu"
MEMORY: Final = "memory"
STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
HUGE_PAGES: Final = "hugepages-"
_OF_POD: Final = (CPU, MEMORY)
_MILLI: Final = 1000
_MIB: Final = 2**20
_GIB: Final = 2**30

Amounts = tuple[tuple[str, int], ...]
"""Resources and amounts: thousandths of a CPU, bytes, or numbers of other resources."""


def amount_of(resource: str, text: object) -> int:
    """The amount of a resource; 0 for a text that is no quantity, which the API server does not accept."""
    try:
        return parse_milli(text) if resource == CPU else parse_quantity(text)
    except InvalidRequest:
        return 0


def requests_of(spec: ClusterPodSpec) -> Amounts:
    """The requests of a pod, sorted, without amounts of 0."""
    total: dict[str, int] = {}
    for each in spec.containers or ():
        _add(total, _amounts(each.requests))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for each in spec.init_containers or ():
        now = _amounts(each.requests)
        if each.restart_policy == "Always":
            _add(total, now)
            _add(sidecars, now)
            now = dict(sidecars)
        else:
            _add(now, sidecars)
        _raise(peak, now)
    _raise(total, peak)
    whole = _amounts((spec.resources.requests if spec.resources else None) or {})
    total |= {name: n for name, n in whole.items() if name in _OF_POD or name.startswith(HUGE_PAGES)}
    _add(total, _amounts(spec.overhead or {}))
    return _shared(tuple(sorted((name, n) for name, n in total.items() if n > 0)))


def _amounts(requests: Mapping[str, Any]) -> dict[str, int]:
    return {name: amount_of(name, text) for name, text in requests.items() if name not in MANAGED_RESOURCES}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: dict[str, int], other: Mapping[str, int]) -> None:
    for name, amount in other.items():
        total[name] = max(total.get(name, 0), amount)


@lru_cache(maxsize=10_000)
def _shared(amounts: Amounts) -> Amounts:
    """Return one object for equal amounts: the pods of a controller have the same."""
    return amounts


def summed(loads: Iterable[Amounts]) -> dict[str, int]:
    """The sums by resource."""
    total: dict[str, int] = {}
    for each in loads:
        _add(total, dict(each))
    return total


def number(resource: str, amount: int, *, is_need: bool = False) -> str:
    """An amount without its resource: ``7.5``, ``20.1 GiB``, ``1``. A need is rounded up, others down."""
    if resource == CPU:
        return f"{amount / _MILLI:g}"
    if resource in (MEMORY, STORAGE) or resource.startswith(HUGE_PAGES):
        if amount < _GIB:
            return f"{_quotient(amount, _MIB, is_need=is_need)} MiB"
        return f"{_quotient(10 * amount, _GIB, is_need=is_need) / 10:g} GiB"
    return str(amount)


def _quotient(amount: int, divisor: int, *, is_need: bool) -> int:
    return -(-amount // divisor) if is_need else amount // divisor


def spelled_out(resource: str, amount: int, *, is_need: bool = True) -> str:
    """An amount for people: ``7.5 CPUs``, ``20.1 GiB of memory``, ``1 of rdma/hca``."""
    text = number(resource, amount, is_need=is_need)
    if resource == CPU:
        return f"{text} CPU{'' if amount == _MILLI else 's'}"
    return f"{text} of {resource}"
