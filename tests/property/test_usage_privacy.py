"""No answer of the usage API has a text of another namespace, in any cluster."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpushare.contract import ANN_PLACEMENT
from gpushare.metricsapi.paths import usage_request_of
from gpushare.runtime.http import Request
from tests.support.builders.usage_objects import gpu_node, gpu_pod, page
from tests.support.fakes.usage_api import UsageApi

MINE, OTHERS = "mine", "secretspace"
"""All texts of the other namespace begin with ``secret``."""
NODES = ("n0", "n1")
TABLE = {b"accept": b"application/json;as=Table;v=v1;g=meta.k8s.io"}
_TERM = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": {"matchExpressions": [{"key": "secret-key", "operator": "DoesNotExist"}]},
    "namespaceSelector": {},
}
REPELLING = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}}}
"""Keeps every pod off the node, with a term that only its author may know."""
PLACES = ("bound", "bound", "unknown", "nominated", "pending")
PATHS = ("gpupods", "gpupods/p0", "gpupods/p0/explanation", "gpupods/p1/explanation", "gpufits")


@st.composite
def pods(draw: st.DrawFn, name: str, namespace: str, places: tuple[str, ...] = PLACES) -> dict[str, Any]:
    secret = namespace == OTHERS
    place = draw(st.sampled_from(places))
    node, card = draw(st.sampled_from(NODES)), draw(st.integers(0, 1))
    prefix = "secret" if secret else "own"
    meta: dict[str, Any] = {
        "uid": f"{prefix}-uid-{name}",
        "ownerReferences": [{"kind": "ReplicaSet", "name": f"{prefix}-owner-5d", "controller": True}],
    }
    if draw(st.booleans()):
        meta["deletionTimestamp"] = "2026-11-29T00:00:00Z"
    if secret and draw(st.booleans()):
        meta["annotations"] = {ANN_PLACEMENT: "secret-policy"}
    return gpu_pod(
        f"{prefix}-pod-{name}" if secret else name,
        namespace,
        draw(st.sampled_from((0, 2, 5, 8, 10))),
        on=node if place in ("bound", "unknown") else None,
        card=card if place == "bound" else None,
        labels={f"{prefix}-label": f"{prefix}-value"},
        container=f"{prefix}-container",
        meta=meta,
        spec={
            "priority": draw(st.integers(-1, 3)),
            "schedulerName": f"{prefix}-scheduler",
            **(REPELLING if secret and draw(st.booleans()) else {}),
        },
        status={"nominatedNodeName": node} if place == "nominated" else {},
    )


@st.composite
def clusters(draw: st.DrawFn) -> list[dict[str, Any]]:
    whole = st.sampled_from(((), (f"{OTHERS}/secret-whole",), (f"{OTHERS}/secret-whole", f"{MINE}/p9")))
    nodes = [
        gpu_node(
            name,
            *draw(st.lists(st.sampled_from((0, 10, 10, 12)), min_size=1, max_size=2)),
            whole={0: found} if (found := draw(whole)) else {},
            broken=draw(st.sampled_from(((), (1,)))),
            labels={
                "kubernetes.io/hostname": name,
                "ack.node.gpu.schedule": draw(st.sampled_from(("share", "cgpu", "cgpu", "mps"))),
            },
        )
        for name in NODES
    ]
    own = [draw(pods("p0", MINE, ("pending",))), draw(pods("p1", MINE))]
    others = [draw(pods(f"q{number}", OTHERS)) for number in range(draw(st.integers(2, 6)))]
    return [*nodes, *own, *others]


async def answers(objects: list[dict[str, Any]]) -> dict[str, bytes]:
    """The body of every response for the namespace, by path and form."""
    api = UsageApi()
    api.see(*objects)
    for name in NODES:
        containers = [
            (OTHERS, "secret-pod-q0", "secret-container", 0, {"memory_used_bytes": 1.0}),
            (MINE, "p0", "own-container", 0, {"memory_used_bytes": 2.0}),
        ]
        api.pages[name] = page(*containers, node=name)
    found = {}
    for path in PATHS:
        for headers in ({}, TABLE):
            whole = f"/apis/usage.gpushare.io/v1/namespaces/{MINE}/{path}"
            target = usage_request_of(whole)
            assert target
            request = Request("GET", whole, headers, None, keep_alive=True)
            answer = await api.service.respond(request, target, {})
            assert answer.status == 200, answer.body
            found[f"{path} {len(headers)}"] = answer.body
    return found


@given(clusters())
def test_no_text_of_another_namespace_is_in_an_answer(objects: list[dict[str, Any]]) -> None:
    for path, body in asyncio.run(answers(objects)).items():
        assert b"secret" not in body, (path, body)
