"""The reason why a node takes no pod, with amounts. Those of single demands are in ``test_fitting``."""

from gpushare.scheduling.advice.refusals import summary
from gpushare.scheduling.book import CardUsage
from tests.support.builders.scheduling import T4, cluster, node, pod


def usages(*things: object) -> tuple[CardUsage, ...]:
    return cluster(*things).books["n"].usages  # type: ignore[arg-type]


def test_the_gpu_with_most_free_units_is_named() -> None:
    assert summary(usages(node("n", T4, T4), pod("a", 4, at="n", card=0))) == "at most 14 of 14 free on GPU 1"
    assert summary(usages(node("n", T4, T4))) == "at most 14 of 14 free on GPU 0"


def test_unschedulable_gpus_are_named_with_it() -> None:
    assert (
        summary(usages(node("n", T4, 8, T4, broken=(0, 2))))
        == "at most 8 of 8 free on GPU 1 (unschedulable: GPU 0,2)"
    )
    assert summary(usages(node("n", T4, broken=(0,)))) == "no GPU is usable (unschedulable: GPU 0)"
