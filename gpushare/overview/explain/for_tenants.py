"""Explanations for a user with the rights of one namespace: nothing in them is of another one. Pure.

Names are withheld before the answer is made: the books do not have them. The invariant is that no text of
another namespace (its name, its pods, their labels and containers) reaches an ``Answer``.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from gpushare.contract import SIDECAR_SCHEDULER
from gpushare.model.objects import Node, Pod
from gpushare.overview.explain.advice import Advice
from gpushare.overview.explain.answer import Answer
from gpushare.overview.objects import ClusterPod
from gpushare.overview.surroundings import Surroundings
from gpushare.scheduling.advice.remedies import RemedyKind

OTHER: Final = "a pod of another namespace"
_OF_THE_CLUSTER: Final = ("default-scheduler", SIDECAR_SCHEDULER)
"""The scheduler of Kubernetes, and that of a sidecar of the extender, unless it has another name."""


def name_for(namespace: str | None) -> Callable[[Pod], str]:
    """How a pod is named for a user of this namespace; None is a user of none."""
    return lambda pod: pod.full_name if pod.namespace == namespace else OTHER


def node_for(node: Node, namespace: str | None) -> Node:
    """The node without the names of whole-GPU pods of other namespaces."""
    if not any(card.whole_gpu_pods for card in node.cards):
        return node
    cards = tuple(replace(card, whole_gpu_pods=_shown(card.whole_gpu_pods, namespace)) for card in node.cards)
    return replace(node, cards=cards)


def _shown(pods: tuple[str, ...], namespace: str | None) -> tuple[str, ...]:
    own = None if namespace is None else f"{namespace}/"
    return tuple(dict.fromkeys(pod if own and pod.startswith(own) else OTHER for pod in pods))


def surroundings_for(around: Surroundings, pod: ClusterPod) -> Surroundings:
    """The surroundings of the pod without schedulers that only other namespaces name.

    Any pod may name one, and nobody is to be sent to the scheduler of another tenant.
    """
    namespace = pod.metadata.namespace
    own = {each.scheduler for each in around.loads if each.namespace == namespace}
    known = own | {pod.scheduler, *_OF_THE_CLUSTER}
    return replace(around, schedulers=around.schedulers & known, extended=around.extended & known)


def for_tenant(answer: Answer) -> Answer:
    """The answer without amounts of single pods of other namespaces, and without commands against them."""
    remedies = dict.fromkeys(_advice_for_tenant(each) for each in answer.remedies)
    return replace(answer, remedies=tuple(remedies))


def _advice_for_tenant(advice: Advice) -> Advice:
    if OTHER not in advice.pods:
        return advice
    own = tuple(pod for pod in advice.pods if pod != OTHER)
    named = " and ".join((*own, "pods of another namespace"))
    if advice.kind == RemedyKind.WAIT:
        text = f"wait until the terminating pods of node {advice.node} are gone: {named}"
    else:
        text = f"ask an administrator to make room on node {advice.node}, where {named} have the units"
    return replace(advice, text=text, command="", pods=own)
