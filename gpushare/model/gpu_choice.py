"""Which GPUs a pod may use, from its annotations: models, UUIDs, and the GPUs of other pods.

What belongs here: reading the annotations, and what they say about a model, a UUID or a pod. What does not:
the GPUs of a node (``gpushare.scheduling.allowed_gpus``).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from gpushare.contract import (
    ANN_AVOID_MODELS,
    ANN_AVOID_UUIDS,
    ANN_OTHER_GPU,
    ANN_SAME_GPU,
    ANN_USE_MODELS,
    ANN_USE_UUIDS,
)
from gpushare.errors import InvalidRequest
from gpushare.model.names import is_object_name
from gpushare.model.selector import Selector, parse_selector

Labels = tuple[tuple[str, str], ...]

_MOST: Final = 64
"""Values of one annotation: each is compared with the GPUs of all nodes."""
_MOST_LABELS: Final = 16
"""Conditions on labels of one annotation: each is compared with the pods of all nodes."""
_LONGEST: Final = 4096
_SHOWN: Final = 100
"""Characters of a value in a text."""
_UUID: Final = re.compile(r"GPU-[0-9A-Za-z-]+", re.ASCII)
_WORD: Final = re.compile(r"[a-z0-9.]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class OtherPods:
    """Pods of one namespace: the one with that name, or all with these labels."""

    namespace: str
    name: str = ""
    selector: Selector | None = None

    def __contains__(self, pod: tuple[str, Labels]) -> bool:
        """Whether a pod, given as ``namespace/name`` and labels, is one of them."""
        full_name, labels = pod
        if self.selector is None:
            return full_name == f"{self.namespace}/{self.name}"
        return full_name.startswith(f"{self.namespace}/") and self.selector(dict(labels))


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """What the annotations of a pod say. ``texts`` are the annotations as their author wrote them.

    A GPU of an unknown model, as on nodes of the Aliyun plugin, is none that a list of models allows, whether
    it names those to use or those to avoid. The same holds for UUIDs.
    """

    texts: tuple[tuple[str, str], ...]
    use_models: tuple[str, ...] = ()
    avoid_models: tuple[str, ...] = ()
    use_uuids: frozenset[str] = frozenset()
    avoid_uuids: frozenset[str] = frozenset()
    same_as: OtherPods | None = None
    other_than: OtherPods | None = None

    def __str__(self) -> str:
        return " and ".join(f"annotation {key}={_shown(value)}" for key, value in self.texts)

    def part(self, *keys: str) -> str:
        """The text of these annotations, of those that the pod has."""
        return str(GpuChoice(tuple(each for each in self.texts if each[0] in keys)))

    @property
    def devices(self) -> "GpuChoice":
        """The choice among models and UUIDs alone, whatever other pods use."""
        return replace(self, same_as=None, other_than=None)

    def allows(self, model: str, uuid: str) -> bool:
        """Whether the pod may use a GPU of that model with that UUID, whatever is on it."""
        return self._allows_model(model) and self._allows_uuid(uuid)

    def _allows_model(self, model: str) -> bool:
        if not (self.use_models or self.avoid_models):
            return True
        if not model or any(is_model(name, model) for name in self.avoid_models):
            return False
        return not self.use_models or any(is_model(name, model) for name in self.use_models)

    def _allows_uuid(self, uuid: str) -> bool:
        if not (self.use_uuids or self.avoid_uuids):
            return True
        return bool(uuid) and uuid not in self.avoid_uuids and (not self.use_uuids or uuid in self.use_uuids)


@lru_cache(maxsize=4096)
def is_model(name: str, model: str) -> bool:
    """Whether a model has the words of the name in a row: ``A100`` is ``NVIDIA A100-SXM4-80GB``.

    Parts of words do not count: ``A10`` is not ``NVIDIA A100``.
    """
    return f" {_words(name)} " in f" {_words(model)} "


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))


@lru_cache(maxsize=10_000)
def gpu_choice(annotations: tuple[tuple[str, str], ...], namespace: str) -> GpuChoice:
    """The choice in these annotations of a pod, one object for equal ones. Raises InvalidRequest."""
    said = dict(annotations)
    choice = GpuChoice(
        annotations,
        _list(said, ANN_USE_MODELS),
        _list(said, ANN_AVOID_MODELS),
        frozenset(_list(said, ANN_USE_UUIDS)),
        frozenset(_list(said, ANN_AVOID_UUIDS)),
        _others(said, ANN_SAME_GPU, namespace),
        _others(said, ANN_OTHER_GPU, namespace),
    )
    if problem := next(_contradictions(choice), None):
        raise InvalidRequest(problem)
    return choice


def unusable_for(choice: GpuChoice, full_name: str, labels: Labels, cards: int) -> str | None:
    """Why no GPUs meet the choice of that pod, which asks for so many; None if some could."""
    # Labels that the pod has itself keep the replicas of a workload apart.
    apart = choice.other_than if choice.other_than and choice.other_than.selector is None else None
    for pods, key in ((choice.same_as, ANN_SAME_GPU), (apart, ANN_OTHER_GPU)):
        if pods and (full_name, labels) in pods:
            return f"{choice.part(key)} is the pod itself: name another pod"
    if 0 < len(choice.use_uuids) < cards:
        return f"{choice.part(ANN_USE_UUIDS)} is too few: the pod asks for {cards} GPUs"
    return None


def _list(said: Mapping[str, str], key: str) -> tuple[str, ...]:
    """The values of an annotation, separated by commas."""
    if key not in said:
        return ()
    found = tuple(part.strip() for part in said[key][:_LONGEST].split(",") if part.strip())
    if not found or len(said[key]) > _LONGEST or len(found) > _MOST:
        raise InvalidRequest(f"{_annotation(said, key)} is not a list of 1 to {_MOST} names")
    for value in found:
        if key in (ANN_USE_UUIDS, ANN_AVOID_UUIDS) and not _UUID.fullmatch(value):
            raise InvalidRequest(
                f"{_annotation(said, key)}: {_shown(value)!r} is no UUID of a GPU, as GPU-1b2c…"
            )
        if not _words(value):
            raise InvalidRequest(f"{_annotation(said, key)}: {_shown(value)!r} is no model of a GPU, as A100")
    return found


def _others(said: Mapping[str, str], key: str, namespace: str) -> OtherPods | None:
    """The pods that an annotation names."""
    if key not in said:
        return None
    text = said[key].strip()
    if is_object_name(text):
        return OtherPods(namespace, text)
    selector = _selector(text)
    if selector and 0 < len(selector.terms) <= _MOST_LABELS:
        return OtherPods(namespace, selector=selector)
    allowed = f"neither the name of a pod nor 1 to {_MOST_LABELS} labels, as app=web"
    raise InvalidRequest(f"{_annotation(said, key)} is {allowed}")


def _selector(text: str) -> Selector | None:
    """The selector, None if it is none. Thousands of commas are not parsed, because that takes long."""
    if len(text) > _LONGEST or text.count(",") >= _MOST:
        return None
    try:
        return parse_selector(text)
    except InvalidRequest:
        return None


def _contradictions(choice: GpuChoice) -> Iterator[str]:
    """Why no GPU can meet the annotations."""
    if choice.use_uuids and choice.use_uuids <= choice.avoid_uuids:
        yield f"{choice.part(ANN_USE_UUIDS, ANN_AVOID_UUIDS)} leave no GPU"
    models = choice.use_models
    if models and all(any(is_model(avoid, use) for avoid in choice.avoid_models) for use in models):
        yield f"{choice.part(ANN_USE_MODELS, ANN_AVOID_MODELS)} leave no model"
    if choice.same_as and choice.same_as == choice.other_than:
        yield f"{choice.part(ANN_SAME_GPU, ANN_OTHER_GPU)} contradict each other"


def _annotation(said: Mapping[str, str], key: str) -> str:
    return f"annotation {key}={_shown(said[key])}"


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
