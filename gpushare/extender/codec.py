"""The scheduler's JSON: extender/v1 requests and answers, byte for byte what Go clients read.

Keys are Go field names; schedulers before 1.17 begin them in lower case, so keys are matched without case if
one is not exact. To notice that, structs of the scheduler forbid unknown fields; those of the API do not.
Errors that the Aliyun extender returns keep their text.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct, inspect

from gpushare.adapters.kube import decoding
from gpushare.adapters.kube.pod_loads import LoadedPod
from gpushare.adapters.kube.wire import Bare, WirePod
from gpushare.errors import InvalidRequest
from gpushare.scheduling import preemption
from gpushare.scheduling.filtering import FilterOutcome

T = TypeVar("T", bound=Struct)
PodT = TypeVar("PodT")


class NodeItems(Struct):
    """A NodeList. Its nodes are read only where the ledger does not know them."""

    items: list[Raw] | None = None


class FilterArgs(Struct, rename="pascal", forbid_unknown_fields=True):
    """ExtenderArgs, for filter and prioritize."""

    pod: WirePod | None = None
    nodes: NodeItems | None = None
    node_names: list[str] | None = None


class LoadedArgs(FilterArgs, rename="pascal", forbid_unknown_fields=True):
    """The same, and what the pod requests of CPU and memory."""

    pod: LoadedPod | None = None


class AskedNodes(NamedTuple):
    """The nodes of a request for filter or prioritize.

    ``objects`` are the Node objects by name, unread, if the request carries objects instead of names.
    """

    names: Sequence[str]
    objects: Mapping[str, Raw] | None = None


class BindArgs(
    Struct,
    rename={"name": "PodName", "namespace": "PodNamespace", "uid": "PodUID", "node": "Node"},
    forbid_unknown_fields=True,
):
    """ExtenderBindingArgs."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    node: str = ""


class MetaPod(Struct, rename={"uid": "UID"}, forbid_unknown_fields=True):
    """A victim by UID."""

    uid: str = ""


class WireVictims(
    Struct,
    Generic[PodT],
    rename={"pods": "Pods", "violations": "NumPDBViolations"},
    forbid_unknown_fields=True,
):
    """Victims, and how many of them violate a disruption budget."""

    pods: list[PodT] | None = None
    violations: int = 0


class PreemptArgs(
    Struct,
    rename={"pod": "Pod", "victims": "NodeNameToVictims", "meta": "NodeNameToMetaVictims"},
    forbid_unknown_fields=True,
):
    """ExtenderPreemptionArgs. Schedulers send whole pods to extenders without a node cache, else UIDs."""

    pod: WirePod | None = None
    victims: dict[str, WireVictims[Bare]] | None = None
    meta: dict[str, WireVictims[MetaPod]] | None = None


class HostPriority(Struct, rename="pascal", gc=False):
    """One node's score."""

    host: str
    score: int


class FilterResult(
    Struct,
    rename={
        "nodes": "Nodes",
        "node_names": "NodeNames",
        "failed": "FailedNodes",
        "unresolvable": "FailedAndUnresolvableNodes",
        "error": "Error",
    },
):
    """ExtenderFilterResult."""

    nodes: dict[str, Any] | None = None
    node_names: list[str] | None = None
    failed: dict[str, str] | None = None
    unresolvable: dict[str, str] | None = None
    error: str = ""


class _AnnotatedMeta(Struct):
    annotations: dict[str, str] | None = None


class _AnnotatedPod(Struct):
    metadata: _AnnotatedMeta = msgspec.field(default_factory=_AnnotatedMeta)


class _AnnotatedArgs(Struct, rename="pascal"):
    pod: _AnnotatedPod | None = None


_annotated = msgspec.json.Decoder(_AnnotatedArgs)
_ANNOTATIONS_LIMIT: Final = 256 * 1024
"""Of all keys and values; the API server checks it at each update, but not at a bind."""
_OURS: Final = 2 * 1024
"""More than a bind adds."""
_OBJECTS_PER_STEP: Final = 200
"""Node objects between two yields. Reading the name of one takes 3 µs."""
_encode = msgspec.json.Encoder().encode
_raw_object = msgspec.json.Decoder(dict[str, Raw])
_raw_list = msgspec.json.Decoder(list[Raw])
_type_of = cache(inspect.type_info)
_bare = msgspec.json.Decoder(Bare)


def decode_steps(body: bytes, kind: type[T]) -> Generator[None, None, T]:
    """A request of the given kind, whose pods may be of any depth. Raises InvalidRequest.

    Yields between parts of the work for deep pods.
    """
    try:
        return _decode(body, kind)
    except RecursionError:
        document = yield from decoding.shallow_steps(body)
        return _decode(document, kind)


def has_room(body: bytes) -> bool:
    """Whether the annotations of the pod in a filter request leave room for those of a bind.

    Without it the pod would be bound, and its status could not be written any more.
    """
    # The annotations are a part of the body: for almost all pods nothing is decoded.
    if len(body) < _ANNOTATIONS_LIMIT - _OURS:
        return True
    try:
        pod = _annotated.decode(body).pod
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    annotations = (pod and pod.metadata.annotations) or {}
    size = sum(len(f"{key}{value}".encode()) for key, value in annotations.items())
    return size < _ANNOTATIONS_LIMIT - _OURS


def decode(body: bytes, kind: type[T]) -> T:
    """A request of the given kind, which contains no pod. Raises InvalidRequest."""
    try:
        return _decode(body, kind)
    except RecursionError:
        raise InvalidRequest("request body is nested too deeply") from None


def _decode(body: bytes, kind: type[T]) -> T:
    if not body.strip():
        raise InvalidRequest("EOF")
    try:
        return msgspec.json.decode(body, type=kind)
    # Rare, and several times as slow: schedulers before 1.17.
    except msgspec.ValidationError:
        return _decode_without_case(body, kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"request body is not JSON: {error}") from error


def _decode_without_case(body: bytes, kind: type[T]) -> T:
    try:
        known = _with_exact_keys(Raw(body), _type_of(kind))
        return msgspec.json.decode(_encode(known), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"request body cannot be read: {error}") from error


def _with_exact_keys(value: Raw, kind: inspect.Type) -> Any:
    """The value with the exact keys of the scheduler's structs, and without unknown ones."""
    match kind:
        case inspect.UnionType(types=(some, inspect.NoneType())) if bytes(value) != b"null":
            return _with_exact_keys(value, some)
        case inspect.StructType(fields=fields, forbid_unknown_fields=True):
            named = {each.encode_name.lower(): each for each in fields}
            given = ((named.get(key.lower()), each) for key, each in _raw_object.decode(value).items())
            return {name.encode_name: _with_exact_keys(each, name.type) for name, each in given if name}
        case inspect.DictType(value_type=item):
            return {key: _with_exact_keys(each, item) for key, each in _raw_object.decode(value).items()}
        case inspect.ListType(item_type=inspect.StructType() as item):
            return [_with_exact_keys(each, item) for each in _raw_list.decode(value)]
    return value


def asked_nodes_steps(args: FilterArgs) -> Generator[None, None, AskedNodes]:
    """The nodes of the request. Raises InvalidRequest if it has neither names nor objects.

    An object without a readable name is left out: the answer could not name it. Yields after some objects.
    """
    if args.node_names is not None:
        return AskedNodes(args.node_names)
    if args.nodes is None:
        raise InvalidRequest("cannot get node names")
    objects: dict[str, Raw] = {}
    for number, item in enumerate(args.nodes.items or (), start=1):
        with suppress(msgspec.DecodeError):
            bare = yield from decoding.decode_steps(_bare, item)
            objects[bare.metadata.name] = item
        if number % _OBJECTS_PER_STEP == 0:
            yield
    objects.pop("", None)
    return AskedNodes(list(objects), objects)


def filter_answer(asked: AskedNodes, outcome: FilterOutcome) -> bytes:
    """The outcome as ExtenderFilterResult, with objects if the request has objects.

    Unresolvable nodes are in both maps: schedulers that know the second one prefer it, and older ones would
    otherwise get no reason.
    """
    return _encode(
        FilterResult(
            nodes=_passed_objects(asked, outcome),
            node_names=outcome.passed,
            failed=outcome.failed | outcome.unresolvable,
            unresolvable=outcome.unresolvable or None,
        )
    )


def _passed_objects(asked: AskedNodes, outcome: FilterOutcome) -> dict[str, Any] | None:
    if asked.objects is None:
        return None
    return {"metadata": {}, "items": [asked.objects[name] for name in outcome.passed]}


def filter_error(text: str) -> bytes:
    """A filter answer that is an error."""
    return _encode(FilterResult(error=text))


def bind_answer(error: str) -> bytes:
    """ExtenderBindingResult; an empty error is success."""
    return _encode({"Error": error})


def scores_answer(scores: dict[str, int]) -> bytes:
    """HostPriorityList, relative to the lowest score; nodes with that score are omitted.

    The scheduler gives 0 to an omitted node, and only differences count. It would otherwise decode thousands
    of equal scores for every pod.
    """
    floor = min(scores.values(), default=0)
    return _encode([HostPriority(host, score - floor) for host, score in scores.items() if score > floor])


def proposed_victims(args: PreemptArgs) -> dict[str, list[str]]:
    """Node → UIDs of the victims that the scheduler proposes, from either form."""
    if args.meta is not None:
        return {node: [pod.uid for pod in v.pods or ()] for node, v in args.meta.items()}
    return {node: [pod.metadata.uid for pod in v.pods or ()] for node, v in (args.victims or {}).items()}


def preempt_answer(args: PreemptArgs, chosen: dict[str, preemption.Victims]) -> bytes:
    """ExtenderPreemptionResult: victims by UID; our budget violations are added to the scheduler's."""
    asked = args.meta if args.meta is not None else (args.victims or {})
    return _encode(
        {
            "NodeNameToMetaVictims": {
                node: {
                    "Pods": [{"UID": uid} for uid in victims.uids],
                    "NumPDBViolations": asked[node].violations + victims.violations,
                }
                for node, victims in chosen.items()
            }
        }
    )
