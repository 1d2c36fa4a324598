"""The scheduler of a new pod: the answer of the webhook to an AdmissionReview. Pure.

The policies of ``components.manifests.scheduler_name`` state the same rule in CEL.
"""

import base64
from typing import Final

import msgspec

from gpushare.adapters.kube.decoding import decode
from gpushare.contract import MANAGED_RESOURCES
from gpushare.errors import InvalidRequest
from gpushare.kubescheduler.config import DEFAULT_SCHEDULER

_UNNAMED: Final = (None, "", DEFAULT_SCHEDULER)


class _Resources(msgspec.Struct):
    limits: dict[str, object] | None = None


class _Container(msgspec.Struct):
    resources: _Resources | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    containers: list[_Container]
    init_containers: list[_Container] | None = None
    scheduler_name: str | None = None
    node_name: str | None = None


class _Pod(msgspec.Struct):
    spec: _PodSpec


class _Request(msgspec.Struct):
    uid: str
    object: _Pod


class _Review(msgspec.Struct):
    request: _Request


_review: Final = msgspec.json.Decoder(_Review)


def reviewed(body: bytes, scheduler: str) -> bytes:
    """The answer for a pod that is created: accepted, with this scheduler if it needs it and names none.

    Raises InvalidRequest if the body is not an AdmissionReview of a pod.
    """
    try:
        request = decode(_review, body).request
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the body is not an AdmissionReview of a pod: {error}") from error
    response = {"uid": request.uid, "allowed": True, **_patch(request.object.spec, scheduler)}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return msgspec.json.encode(review)


def _patch(spec: _PodSpec, scheduler: str) -> dict[str, str]:
    if spec.scheduler_name not in _UNNAMED or spec.node_name or not _requests_units(spec):
        return {}
    operations = [{"op": "add", "path": "/spec/schedulerName", "value": scheduler}]
    return {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(operations)).decode()}


def _requests_units(spec: _PodSpec) -> bool:
    containers = [*spec.containers, *(spec.init_containers or ())]
    limits = [(each.resources.limits if each.resources else None) or {} for each in containers]
    return any(name in each for name in MANAGED_RESOURCES for each in limits)
