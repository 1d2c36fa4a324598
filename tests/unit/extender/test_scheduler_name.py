"""The webhook's answers to an AdmissionReview."""

import base64
import json
from typing import Any

import pytest

from gpushare.contract import RESOURCE_CORE, RESOURCE_MEM
from gpushare.errors import InvalidRequest
from gpushare.extender.scheduler_name import reviewed
from gpushare.extender.webhook import routes
from gpushare.runtime.http import Request, Response

NAME = "gpushare-scheduler"


def container(**limits: str) -> dict[str, Any]:
    return {"name": "c", "image": "i", "resources": {"limits": limits}}


def review(**spec: Any) -> bytes:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container(**{RESOURCE_MEM: "1"})], **spec}}
    request = {"uid": "u", "operation": "CREATE", "object": pod}
    return json.dumps({"kind": "AdmissionReview", "request": request}).encode()


def patched(body: bytes) -> Any:
    """The operations of the patch; None without one. The answer accepts the pod."""
    response = json.loads(reviewed(body, NAME))["response"]
    assert (response["uid"], response["allowed"]) == ("u", True)
    return json.loads(base64.b64decode(response["patch"])) if "patch" in response else None


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"schedulerName": ""},
        {"schedulerName": "default-scheduler"},
        {"containers": [{"name": "a"}, container(**{RESOURCE_CORE: "30"})]},
        {"containers": [{"name": "a"}], "initContainers": [container(**{RESOURCE_MEM: "1"})]},
    ],
)
def test_a_pod_that_requests_units_and_names_no_scheduler_gets_it(spec: dict[str, Any]) -> None:
    assert patched(review(**spec)) == [{"op": "add", "path": "/spec/schedulerName", "value": NAME}]


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulerName": "batch"},
        {"nodeName": "n"},
        {"containers": [container(**{"nvidia.com/gpu": "1"})]},
        {"containers": [{"name": "a", "resources": {"limits": None}}], "initContainers": None},
    ],
)
def test_other_pods_are_left_alone(spec: dict[str, Any]) -> None:
    assert patched(review(**spec)) is None


def test_a_pod_with_deep_fields_gets_the_scheduler_too() -> None:
    deep = b'{"f:a":' * 9_990 + b"{}" + b"}" * 9_990
    body = review().replace(b'"name": "p"', b'"name": "p", "managedFields": [' + deep + b"]")
    assert patched(body) == [{"op": "add", "path": "/spec/schedulerName", "value": NAME}]


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"\xff", b'{"request": {"uid": "u", "object": null}}', b'{"a":' + b"[" * 5000]
)
def test_another_body_is_an_error(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="not an AdmissionReview of a pod"):
        reviewed(body, NAME)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/scheduler-name", review(), 200),
        ("POST", "/scheduler-name", b"{}", 400),
        ("POST", "/scheduler-name", None, 413),
        ("GET", "/scheduler-name", b"", 405),
        ("POST", "/", b"", 404),
    ],
)
def test_the_status_says_what_is_wrong(method: str, path: str, body: bytes | None, status: int) -> None:
    answer = routes(NAME)(Request(method, path, {}, body, keep_alive=True))
    assert isinstance(answer, Response)
    assert answer.status == status
