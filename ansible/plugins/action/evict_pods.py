"""Action plugin: evicts the pods of a node, or those that use certain resources, until they are gone."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.gpushare.nodes.plugins.plugin_utils import kube_api
from ansible_collections.gpushare.nodes.plugins.plugin_utils.pods_using import (
    Pod,
    classify,
    full_name,
    with_emptydir,
)

ARGUMENTS: dict[str, Any] = {
    **kube_api.ARGUMENTS,
    "node": {"type": "str", "required": True},
    "resources": {"type": "list", "elements": "str", "default": []},
    "force": {"type": "bool", "default": False},
    "delete_emptydir_data": {"type": "bool", "default": True},
    "wait_s": {"type": "int", "default": 300},
}
_POLL_S = 0.5
_EVICTION_V1 = 22
"""Minor version of the first Kubernetes that has Evictions of policy/v1."""


class ActionModule(ActionBase):  # type: ignore[misc]
    """The plugin."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of the task."""
        super().run(tmp, task_vars)
        _, args = self.validate_argument_spec(ARGUMENTS)
        return kube_api.answer(args, partial(_drain, args, dry_run=self._task.check_mode))


def _drain(args: dict[str, Any], api: kube_api.Api, *, dry_run: bool) -> dict[str, Any]:
    node = args["node"]
    evictor = Evictor(api, node)
    found = classify(evictor.pods(), args["resources"])
    pods = found["go"] + found["bare"]
    refusal = _refusal(args, found["bare"], with_emptydir(pods))
    if refusal:
        return {"failed": True, "msg": refusal}
    rest = [] if dry_run else evictor.run(pods, args["wait_s"])
    if rest:
        reasons = [f"{full_name(pod)} ({evictor.reason(pod)})" for pod in rest]
        late = f"these pods of node {node} are not gone after {args['wait_s']} s: {'; '.join(reasons)}"
        return {"failed": True, "msg": late}
    return {
        "changed": bool(pods),
        "evicted": [full_name(pod) for pod in pods],
        "left": [full_name(pod) for pod in found["stay"]],
    }


def _refusal(args: dict[str, Any], bare: list[Pod], lossy: list[Pod]) -> str:
    """Return why no pod is evicted, "" if they are."""
    if bare and not args["force"]:
        return (
            f"these pods of node {args['node']} have no controller and would not be recreated: {_names(bare)}"
            "; delete them, or evict them with force"
        )
    if lossy and not args["delete_emptydir_data"]:
        return (
            f"the eviction of these pods of node {args['node']} would delete the data of an emptyDir: "
            f"{_names(lossy)}; delete them first, or set delete_emptydir_data"
        )
    return ""


def _names(pods: list[Pod]) -> str:
    return ", ".join(map(full_name, pods))


class Evictor:
    """Evicts pods of one node, with retries until they are gone or the timeout is over."""

    def __init__(self, api: kube_api.Api, node: str) -> None:
        self._api, self._node = api, node
        minor = int("".join(each for each in api.request("get", "/version")["minor"] if each.isdigit()))
        self._version = "policy/v1" if minor >= _EVICTION_V1 else "policy/v1beta1"
        self._accepted: set[str] = set()
        self._refusals: dict[str, str] = {}

    def pods(self) -> list[Pod]:
        """Return the pods of the node, as JSON objects."""
        selector = f"spec.nodeName={self._node}"
        found: list[Pod] = self._api.request("get", "/api/v1/pods", field_selector=selector)["items"]
        return found

    def run(self, pods: list[Pod], wait_s: float) -> list[Pod]:
        """Return the pods that remain after that time."""
        deadline = time.monotonic() + wait_s
        rest = pods
        while rest:
            for pod in rest:
                self._evict(pod)
            there = [pod["metadata"]["uid"] for pod in self.pods()]
            rest = [pod for pod in rest if pod["metadata"]["uid"] in there]
            if time.monotonic() >= deadline:
                break
            time.sleep(_POLL_S)
        return rest

    def reason(self, pod: Pod) -> str:
        """Return why a pod remains."""
        return self._refusals.get(pod["metadata"]["uid"], "terminating")

    def _evict(self, pod: Pod) -> None:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        namespace = pod["metadata"]["namespace"]
        if uid in self._accepted:
            return
        body = {
            "apiVersion": self._version,
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            # Never evict a new pod of the same name.
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        try:
            self._api.request("post", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body=body)
        except kube_api.ApiException as error:
            if error.status not in (kube_api.NOT_FOUND, kube_api.TOO_MANY):
                raise
            if error.status == kube_api.TOO_MANY:
                self._refusals[uid] = json.loads(error.body or "{}").get("message", error.reason)
                return
        self._accepted.add(uid)
        self._refusals.pop(uid, None)
