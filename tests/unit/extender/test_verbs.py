"""The scheduler's verbs: exact JSON in and out, and no input that raises."""

import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.contract import REASON_ANNOTATIONS, REASON_REJECTED
from gpushare.errors import InvalidRequest
from gpushare.extender.backoff import Wait
from gpushare.extender.codec import bind_answer
from gpushare.extender.decision import BindRequest
from gpushare.extender.verbs import (
    VerbResult,
    bind_request,
    error_answer,
    filter_steps,
    preempt_steps,
    prioritize_steps,
)
from gpushare.model.cards import Card
from gpushare.model.objects import Node
from gpushare.scheduling.ledger import EMPTY_LEDGER, Ledger
from gpushare.scheduling.preemption import BudgetsOf, no_budgets
from tests.property.strategies import json_values
from tests.support.builders.scheduling import budget, cluster, node, pod
from tests.support.steps import finished

Verb = Callable[[bytes, Ledger], VerbResult]


def filter_verb(request_body: bytes, ledger: Ledger, most: int = 0) -> VerbResult:
    return finished(filter_steps(request_body, ledger, most=most))


def prioritize_verb(request_body: bytes, ledger: Ledger) -> VerbResult:
    return finished(prioritize_steps(request_body, ledger))


def preempt_verb(request_body: bytes, ledger: Ledger, budgets_of: BudgetsOf = no_budgets) -> VerbResult:
    return finished(preempt_steps(request_body, ledger, budgets_of))


VERBS = (filter_verb, prioritize_verb, preempt_verb)
BUSY = cluster(
    node("n", 14),
    node("m", 14),
    node("small", 2),
    pod("a", 12, at="n", card=0),
    pod("b", 4, at="m", card=0),
)


def wire_pod(mem: object = 4, *, uid: str = "p", **spec: object) -> dict[str, Any]:
    """A pending pod as the API writes it."""
    container = {"name": "main", "resources": {"limits": {"aliyun.com/gpu-mem": mem}}}
    return {
        "metadata": {"name": "web", "namespace": "ns", "uid": uid},
        "spec": {"containers": [container], **spec},
    }


def body(**keys: object) -> bytes:
    return json.dumps(keys).encode()


def answer(verb: Verb, request: bytes, ledger: Ledger = BUSY) -> Any:
    given_back, error, *_ = verb(request, ledger)
    assert error == ""
    return json.loads(given_back)


# --- filter --------------------------------------------------------------------------------------


def test_a_model_that_no_node_has_is_named_with_those_that_there_are() -> None:
    t4 = Node("n", (Card(0, 14, model="Tesla T4"),))
    asked = wire_pod()
    asked["metadata"]["annotations"] = {"gpushare.io/use-gpu-models": "H100"}
    found = answer(filter_verb, body(Pod=asked, NodeNames=["n", "m"]), cluster(t4, node("m", 14)))
    text = "annotation gpushare.io/use-gpu-models=H100: no GPU of the cluster is one; there are Tesla T4"
    assert found["FailedAndUnresolvableNodes"] == {"n": text, "m": text}


def test_a_filter_answer_byte_for_byte() -> None:
    found, error, *_ = filter_verb(body(Pod=wire_pod(), NodeNames=["m", "n", "small"]), BUSY)
    assert error == ""
    assert found.decode() == (
        '{"Nodes":null,"NodeNames":["m"],'
        '"FailedNodes":{"n":"Insufficient GPU Memory in one device: asked 4",'
        '"small":"Insufficient GPU Memory in one device: asked 4, no GPU is that large"},'
        '"FailedAndUnresolvableNodes":'
        '{"small":"Insufficient GPU Memory in one device: asked 4, no GPU is that large"},"Error":""}'
    )


def test_nodes_that_a_workload_has_to_wait_for_are_left_out() -> None:
    request, empty = body(Pod=wire_pod(), NodeNames=["n", "m"]), cluster(node("n", 14), node("m", 14))
    wait = Wait(frozenset({"m"}), 0, "")
    found = json.loads(finished(filter_steps(request, empty, wait_of=lambda _: wait)).answer)
    assert (found["NodeNames"], found["FailedAndUnresolvableNodes"]) == (["n"], {"m": REASON_REJECTED})
    nowhere = finished(filter_steps(request, empty, wait_of=lambda _: replace(wait, nodes=None)))
    assert (json.loads(nowhere.answer)["NodeNames"], nowhere.may_fit_soon) == ([], None)


@pytest.mark.parametrize(
    ("closed", "asked", "waits"), [("no library", ["n"], True), (None, ["n"], False), (None, ["gone"], True)]
)
def test_a_pod_waits_for_a_closed_node_to_take_pods_again(
    closed: str | None, asked: list[str], *, waits: bool
) -> None:
    """Its change may be on its way to the extender; a node that never shares changes nothing."""
    plain = replace(node("n", 14), cards=() if closed is None else node("n", 14).cards, closed=closed)
    found = filter_verb(body(Pod=wire_pod(), NodeNames=asked), cluster(plain))
    assert (found.may_fit_soon is not None) is waits


@pytest.mark.parametrize(("size", "fits"), [(1000, True), (250_000, True), (261_990, False)])
def test_a_pod_whose_annotations_leave_no_room_is_not_bound(size: int, fits: bool) -> None:  # noqa: FBT001 - a table
    """The API server would bind it, and refuse every update of its status from then on."""
    full = wire_pod()
    full["metadata"]["annotations"] = {"note": size * "x"}
    found = json.loads(filter_verb(body(Pod=full, NodeNames=["m"]), BUSY).answer)
    assert found["NodeNames"] == (["m"] if fits else [])
    assert found["FailedNodes"] == ({} if fits else {"m": REASON_ANNOTATIONS})


def test_with_no_unresolvable_node_that_map_is_null() -> None:
    found = answer(filter_verb, body(Pod=wire_pod(), NodeNames=["m"]))
    assert found == {
        "Nodes": None,
        "NodeNames": ["m"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": None,
        "Error": "",
    }


def test_no_node_fits_is_an_empty_list_and_no_null() -> None:
    assert answer(filter_verb, body(Pod=wire_pod(), NodeNames=["n"]))["NodeNames"] == []


def test_of_the_nodes_that_fit_a_shortlist_names_the_best_and_rejects_no_other() -> None:
    request = body(Pod=wire_pod(2), NodeNames=["m", "n", "small", "gone"])
    found = answer(partial(filter_verb, most=2), request)
    assert set(found["NodeNames"]) == {"n", "small"}
    assert found["FailedNodes"] == {"gone": "node not found"}


def test_objects_of_known_nodes_are_passed_back_unread() -> None:
    nodes = [{"metadata": {"name": name}, "spec": {"odd": [1, {"x": None}]}} for name in ("m", "n")]
    found = answer(filter_verb, body(Pod=wire_pod(), Nodes={"items": nodes}, NodeNames=None))
    assert found["Nodes"] == {"metadata": {}, "items": [nodes[0]]}
    assert found["NodeNames"] == ["m"]


def test_a_node_list_without_items_is_no_node() -> None:
    found = answer(filter_verb, body(Pod=wire_pod(), Nodes={"items": None}))
    assert (found["Nodes"], found["NodeNames"]) == ({"metadata": {}, "items": []}, [])


def test_lower_case_keys_of_old_schedulers_are_read() -> None:
    exact = filter_verb(body(Pod=wire_pod(), Nodes=None, NodeNames=["m", "n"]), BUSY)
    assert filter_verb(body(pod=wire_pod(), nodes=None, nodenames=["m", "n"]), BUSY) == exact


def test_unknown_keys_are_ignored() -> None:
    found = answer(filter_verb, body(Pod=wire_pod(), NodeNames=["m"], NewInSomeRelease={"x": 1}))
    assert found["NodeNames"] == ["m"]


def test_a_malformed_pod_fits_nowhere_and_each_node_has_the_reason() -> None:
    found = answer(filter_verb, body(Pod=wire_pod(-4), NodeNames=["m", "n"]))
    problem = "container main: limit aliyun.com/gpu-mem=-4 is negative"
    assert found["NodeNames"] == []
    assert found["FailedAndUnresolvableNodes"] == found["FailedNodes"] == {"m": problem, "n": problem}


def test_a_pod_that_requests_nothing_passes_everywhere() -> None:
    plain = {"metadata": {"name": "web", "namespace": "ns", "uid": "p"}, "spec": {"containers": []}}
    found = answer(filter_verb, body(Pod=plain, NodeNames=["m", "n", "gone"]))
    assert found["NodeNames"] == ["m", "n", "gone"]


@pytest.mark.parametrize(
    ("request_body", "expected"),
    [
        (b"", "EOF"),
        (b"  \n", "EOF"),
        (b"{}", "arg or pod is nil"),
        (b'{"Pod":null,"NodeNames":["n"]}', "arg or pod is nil"),
        (body(Pod=wire_pod()), "cannot get node names"),
        (body(Pod=wire_pod(), Nodes=None, NodeNames=None), "cannot get node names"),
    ],
)
def test_errors_of_the_aliyun_extender_keep_their_text(request_body: bytes, expected: str) -> None:
    found, error, *_ = filter_verb(request_body, BUSY)
    assert error == expected
    assert found.decode() == (
        '{"Nodes":null,"NodeNames":null,"FailedNodes":null,"FailedAndUnresolvableNodes":null,'
        f'"Error":"{expected}"}}'
    )


@pytest.mark.parametrize(
    ("request_body", "expected"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "cannot be read"),
        (b'{"NodeNames":[1]}', "NodeNames"),
        (b'{"x":' + b"[" * 100_000, "cannot be read"),
        (b'{"Pod":{"x":' + b"[" * 100_000, "not JSON"),
    ],
)
def test_an_unreadable_request_returns_the_reason(request_body: bytes, expected: str) -> None:
    found, error, *_ = filter_verb(request_body, BUSY)
    assert expected in error
    assert json.loads(found)["Error"] == error


# --- prioritize ----------------------------------------------------------------------------------


def test_scores_are_counted_from_the_lowest_which_is_omitted() -> None:
    ledger = cluster(node("e", 14), node("h", 14), node("f", 14), pod("x", 6, at="h", card=0),
                     pod("y", 10, at="f", card=0))  # fmt: skip
    found, error, *_ = prioritize_verb(body(Pod=wire_pod(), NodeNames=["e", "h", "f"]), ledger)
    assert error == ""
    assert found == b'[{"Host":"h","Score":3},{"Host":"f","Score":6}]'


def test_a_node_that_does_not_fit_is_the_floor() -> None:
    assert answer(prioritize_verb, body(Pod=wire_pod(), NodeNames=["n", "m"])) == [{"Host": "m", "Score": 6}]


def test_equal_nodes_and_no_nodes_score_nothing() -> None:
    assert answer(prioritize_verb, body(Pod=wire_pod(), NodeNames=["m"])) == []
    assert answer(prioritize_verb, body(Pod=wire_pod(), NodeNames=[])) == []


@pytest.mark.parametrize("request_body", [b"", b"{}", b"[]", body(Pod=wire_pod(-1), NodeNames=["n"])])
def test_a_prioritize_that_cannot_be_read_scores_nothing_and_is_logged(request_body: bytes) -> None:
    found, error, *_ = prioritize_verb(request_body, BUSY)
    assert found == b"[]"
    assert error


# --- preempt -------------------------------------------------------------------------------------

FULL = cluster(node("n", 14), pod("low", 12, at="n", card=0), pod("tiny", 2, at="n", card=0))


def test_victims_by_uid_byte_for_byte() -> None:
    asked = {"n": {"Pods": [{"UID": "low"}, {"UID": "tiny"}], "NumPDBViolations": 1}}
    request = body(Pod=wire_pod(12, priority=100), NodeNameToVictims=None, NodeNameToMetaVictims=asked)
    found, error, *_ = preempt_verb(request, FULL)
    assert error == ""
    [uids] = [[p["UID"] for p in v["Pods"]] for v in json.loads(found)["NodeNameToMetaVictims"].values()]
    assert set(uids) >= {"low"}
    pods = ",".join(f'{{"UID":"{uid}"}}' for uid in uids)
    assert found.decode() == (f'{{"NodeNameToMetaVictims":{{"n":{{"Pods":[{pods}],"NumPDBViolations":1}}}}}}')


def test_violations_of_added_victims_are_added_to_those_that_the_scheduler_counted() -> None:
    asked = {"n": {"Pods": [{"UID": "x"}], "NumPDBViolations": 2}}
    request = body(Pod=wire_pod(14, priority=100), NodeNameToMetaVictims=asked)
    found, *_ = preempt_verb(request, FULL, lambda uid: [budget(app="db")] if uid == "tiny" else [])
    assert json.loads(found)["NodeNameToMetaVictims"] == {
        "n": {"Pods": [{"UID": "x"}, {"UID": "low"}, {"UID": "tiny"}], "NumPDBViolations": 3}
    }


def test_whole_victims_are_answered_by_uid() -> None:
    whole = {"n": {"Pods": [{"metadata": {"uid": "low", "name": "low"}, "spec": {}}], "NumPDBViolations": 0}}
    meta = {"n": {"Pods": [{"UID": "low"}], "NumPDBViolations": 0}}
    pod_asked = wire_pod(12, priority=100)
    by_whole = answer(preempt_verb, body(Pod=pod_asked, NodeNameToVictims=whole), FULL)
    by_meta = answer(preempt_verb, body(Pod=pod_asked, NodeNameToMetaVictims=meta), FULL)
    assert by_whole == by_meta
    assert by_whole["NodeNameToMetaVictims"]["n"]["Pods"] == [{"UID": "low"}]


def deep(uid: str) -> dict[str, Any]:
    """A pod with as deep fields as the API server stores, to be filled into JSON."""
    return {"metadata": {"uid": uid, "name": uid, "managedFields": ["DEEP"]}, "spec": {}}


def filled(request_body: bytes) -> bytes:
    return request_body.replace(b'"DEEP"', b'{"f:a":' * 9_990 + b"{}" + b"}" * 9_990)


@pytest.mark.parametrize("keys", [("Pod", "NodeNameToVictims"), ("pod", "nodenametovictims")])
def test_whole_victims_are_read_however_deep_their_fields_are(keys: tuple[str, str]) -> None:
    whole = {"n": {"Pods": [deep("low")], "NumPDBViolations": 0}}
    request = filled(body(**dict(zip(keys, (wire_pod(12, priority=100), whole), strict=True))))
    found = answer(preempt_verb, request, FULL)
    assert found["NodeNameToMetaVictims"]["n"]["Pods"] == [{"UID": "low"}]


def test_a_pod_and_nodes_with_deep_fields_are_filtered() -> None:
    web = wire_pod()
    web["metadata"]["managedFields"] = ["DEEP"]
    nodes = {"items": [{"metadata": {"name": name, "managedFields": ["DEEP"]}} for name in ("n", "m")]}
    found = answer(filter_verb, filled(body(Pod=web, Nodes=nodes)))
    assert found["NodeNames"] == ["m"]
    assert [each["metadata"]["name"] for each in found["Nodes"]["items"]] == ["m"]


def test_other_work_has_turns_while_a_deep_request_is_decoded() -> None:
    wide = b"[" * 1500 + b"[]," * 100_000 + b"[]" + b"]" * 1500
    web = wire_pod()
    web["metadata"]["managedFields"] = ["DEEP"]
    request = body(Pod=web, NodeNames=["n"]).replace(b'"DEEP"', wide)
    assert len(list(filter_steps(request, BUSY))) > 50


OLD_KEYS = {
    "Pod": "pod",
    "NodeNameToVictims": "nodeNameToVictims",
    "NodeNameToMetaVictims": "nodeNameToMetaVictims",
    "Pods": "pods",
    "NumPDBViolations": "numPDBViolations",
    "UID": "uid",
}
"""The keys of kube-scheduler before 1.17."""


@pytest.mark.parametrize("spell", [lambda key: OLD_KEYS[key], str.lower, str.upper])
@pytest.mark.parametrize("key", ["NodeNameToMetaVictims", "NodeNameToVictims"])
def test_a_preempt_request_is_read_in_any_case(spell: Callable[[str], str], key: str) -> None:
    def request(spelled: Callable[[str], str]) -> bytes:
        uid = {spelled("UID"): "low"} if key == "NodeNameToMetaVictims" else {"metadata": {"uid": "low"}}
        victims = {"n": {spelled("Pods"): [uid], spelled("NumPDBViolations"): 2}}
        return body(**{spelled("Pod"): wire_pod(12, priority=9), spelled(key): victims})

    exact = answer(preempt_verb, request(str), FULL)
    assert exact == {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "low"}], "NumPDBViolations": 2}}}
    assert answer(preempt_verb, request(spell), FULL) == exact


def test_node_names_and_unknown_keys_of_victims_are_left_as_they_are() -> None:
    meta = {"n": {"Pods": [{"UID": "low", "New": 1}], "New": {}}, "UID": {"pods": None}}
    found = answer(preempt_verb, body(Pod=wire_pod(12, priority=9), NodeNameToMetaVictims=meta), FULL)
    assert found == {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "low"}], "NumPDBViolations": 0}}}


def test_a_pod_larger_than_any_gpu_has_no_victims() -> None:
    meta = {"n": {"Pods": [{"UID": "low"}], "NumPDBViolations": 0}}
    found = answer(preempt_verb, body(Pod=wire_pod(99, priority=9), NodeNameToMetaVictims=meta), FULL)
    assert found == {"NodeNameToMetaVictims": {}}


@pytest.mark.parametrize("request_body", [b"", b"{}", b"7", body(Pod=wire_pod("x"), NodeNameToVictims={})])
def test_a_preempt_that_cannot_be_read_evicts_no_pod(request_body: bytes) -> None:
    found, error, *_ = preempt_verb(request_body, FULL)
    assert found == b'{"NodeNameToMetaVictims":{}}'
    assert error


# --- bind ----------------------------------------------------------------------------------------


def test_a_bind_request_that_is_nested_deeply_is_invalid() -> None:
    with pytest.raises(InvalidRequest, match="too deeply"):
        bind_request(b'{"PodName": ' + b"[" * 2000 + b"]" * 2000 + b"}")


@pytest.mark.parametrize("spell", [str, str.lower, str.upper])
def test_a_bind_request_is_read_in_any_case(spell: Callable[[str], str]) -> None:
    keys = {"PodName": "web", "PodNamespace": "ns", "PodUID": "u", "Node": "n"}
    request = json.dumps({spell(key): value for key, value in keys.items()}).encode()
    assert bind_request(request) == BindRequest("ns", "web", "u", "n")


@pytest.mark.parametrize(
    "name", ["..", "../../../nodes", "web?watch=1", "web/log", "a b", "é", "a..b", "a" * 254]
)
@pytest.mark.parametrize("key", ["PodName", "PodNamespace"])
def test_a_name_that_would_be_another_path_of_the_api_is_refused(key: str, name: str) -> None:
    request = {"PodName": "web", "PodNamespace": "ns", "PodUID": "u", "Node": "n"} | {key: name}
    with pytest.raises(InvalidRequest, match=f"^bind request with {key} .*, which is not a name$"):
        bind_request(json.dumps(request).encode())


def test_a_bind_request_names_all_that_is_missing() -> None:
    with pytest.raises(InvalidRequest, match=r"^bind request without PodNamespace, Node$"):
        bind_request(b'{"PodName":"web","PodUID":"u","Node":""}')


def test_bind_answers_byte_for_byte() -> None:
    assert bind_answer("") == b'{"Error":""}'
    assert bind_answer('no "n"') == b'{"Error":"no \\"n\\""}'


# --- any input -----------------------------------------------------------------------------------

KEYS = ("Pod", "Nodes", "NodeNames", "pod", "nodenames", "NodeNameToVictims", "NodeNameToMetaVictims", "Node")
inner = json_values | st.just(wire_pod()) | st.lists(st.sampled_from(("n", "m", "gone", "\x00"))) | (
    st.dictionaries(st.sampled_from(("n", "m", "items", "metadata", "spec")), json_values)
)  # fmt: skip
requests = st.dictionaries(st.sampled_from(KEYS), inner).map(lambda value: json.dumps(value).encode())
anything = st.binary() | json_values.map(lambda value: json.dumps(value).encode()) | requests


@given(anything)
def test_no_input_makes_a_verb_raise_and_every_answer_is_json(request: bytes) -> None:
    for verb in VERBS:
        for ledger in (EMPTY_LEDGER, BUSY):
            found, error, *_ = verb(request, ledger)
            json.loads(found)
            assert isinstance(error, str)


@given(anything)
def test_an_invalid_bind_request_raises_no_other_error(request: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        found = bind_request(request)
        assert all((found.namespace, found.name, found.uid, found.node))


@given(st.text())
def test_every_error_text_survives_the_answer(text: str) -> None:
    sound = text.encode(errors="replace").decode()
    assert json.loads(error_answer("filter", sound))["Error"] == sound


def test_a_pod_that_fits_nowhere_now_waits_and_one_that_never_could_does_not() -> None:
    def waiting_uid(asks: int, *names: str) -> str | None:
        waiting = filter_verb(body(Pod=wire_pod(asks), NodeNames=names), BUSY).may_fit_soon
        return waiting.uid if waiting else None

    assert waiting_uid(4, "n") == wire_pod()["metadata"]["uid"]
    assert waiting_uid(4, "m", "n") is None
    assert waiting_uid(400, "m", "n") is None
