#!/usr/bin/python
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Evicts the pods of a node, or those that use certain resources, and waits until they are gone."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: evict_pods
short_description: Evict the pods of a node, or those that use certain resources
version_added: 0.1.0
description:
  - Evicts through the API, so that PodDisruptionBudgets apply. A refused eviction is retried until the
    timeout. P(kubernetes.core.k8s_drain#module) selects pods by label only, fails at the first refusal,
    and only warns if pods remain after the timeout.
  - Pods of DaemonSets and static pods are kept, like C(kubectl drain), and listed.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
options:
  node:
    description: Name of the node.
    type: str
    required: true
  resources:
    description:
      - Names of the resources. Selects pods with a container that requests one of them. Empty means all pods.
    type: list
    elements: str
    default: []
  force:
    description: Also evict pods without a controller, which are not recreated.
    type: bool
    default: false
  delete_emptydir_data:
    description: Also evict pods with an emptyDir, whose data is lost.
    type: bool
    default: true
  wait_s:
    description: Timeout in seconds.
    type: int
    default: 300
attributes:
  check_mode:
    description: Lists the pods and evicts none.
    support: full
requirements: [kubernetes]
author:
  - The gpushare authors
"""

EXAMPLES = r"""
- name: Drain a node that is cordoned
  gpushare.nodes.evict_pods:
    node: gpu-1
  delegate_to: localhost

- name: Evict what uses whole GPUs
  gpushare.nodes.evict_pods:
    node: gpu-1
    resources: [nvidia.com/gpu]
  delegate_to: localhost
"""

RETURN = r"""
evicted:
  description: Evicted pods, in check mode pods to evict, as namespace/name.
  returned: always
  type: list
  elements: str
left:
  description: Pods of DaemonSets and static pods, which are kept.
  returned: always
  type: list
  elements: str
"""

import json
import time

from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException

from ansible_collections.gpushare.nodes.plugins.module_utils import deep_json
from ansible_collections.gpushare.nodes.plugins.module_utils.pods_using import (
    classify,
    full_name,
    with_emptydir,
)

try:
    from kubernetes.client import CoreV1Api, VersionApi
    from kubernetes.client.rest import ApiException
    from urllib3.exceptions import HTTPError
except ImportError:
    # AnsibleK8SModule reports this.
    ApiException = HTTPError = Exception

_BARE = (
    "these pods of node {0} have no controller and would not be recreated: {1}; delete them, or evict them "
    "with force"
)
_LOSSY = (
    "the eviction of these pods of node {0} would delete the data of an emptyDir: {1}; delete them first, or "
    "set delete_emptydir_data"
)
_POLL_S = 0.5
_NOT_FOUND, _TOO_MANY = 404, 429
_EVICTION_V1 = 22
"""Minor version of the first Kubernetes that has Evictions of policy/v1."""


class Evictor:
    """Evicts pods of one node, with retries until they are gone or the timeout is over."""

    def __init__(self, client, node):
        self._api, self._node = CoreV1Api(client), node
        minor = int("".join(each for each in VersionApi(client).get_code().minor if each.isdigit()))
        self._version = "policy/v1" if minor >= _EVICTION_V1 else "policy/v1beta1"
        self._accepted = set()
        self.refusals = {}

    def pods(self):
        """Return the pods of the node, as JSON objects."""
        selector = "spec.nodeName={0}".format(self._node)
        reply = self._api.list_pod_for_all_namespaces(field_selector=selector, _preload_content=False)
        return deep_json.loads(reply.data.decode("utf-8"))["items"]

    def run(self, pods, wait_s):
        """Return the pods that remain after that time."""
        deadline = time.time() + wait_s
        rest = pods
        while rest:
            for pod in rest:
                self._evict(pod)
            there = [pod["metadata"]["uid"] for pod in self.pods()]
            rest = [pod for pod in rest if pod["metadata"]["uid"] in there]
            if time.time() >= deadline:
                break
            time.sleep(_POLL_S)
        return rest

    def _evict(self, pod):
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
            self._api.create_namespaced_pod_eviction(name, namespace, body)
        except ApiException as error:
            if error.status not in (_NOT_FOUND, _TOO_MANY):
                raise
            if error.status == _TOO_MANY:
                self.refusals[uid] = json.loads(error.body or "{}").get("message", error.reason)
                return
        self._accepted.add(uid)
        self.refusals.pop(uid, None)


def drain(module, evictor):
    """Evict the selected pods; fail if one of them cannot be evicted."""
    params = module.params
    found = classify(evictor.pods(), params["resources"])
    left = [full_name(pod) for pod in found["stay"]]
    pods = found["go"] + found["bare"]
    if found["bare"] and not params["force"]:
        refuse(module, found["bare"], _BARE)
    if with_emptydir(pods) and not params["delete_emptydir_data"]:
        refuse(module, with_emptydir(pods), _LOSSY)
    rest = [] if module.check_mode else evictor.run(pods, params["wait_s"])
    if rest:
        reasons = [
            "{0} ({1})".format(full_name(pod), evictor.refusals.get(pod["metadata"]["uid"], "terminating"))
            for pod in rest
        ]
        module.fail_json(
            msg="these pods of node {0} are not gone after {1} s: {2}".format(
                params["node"], params["wait_s"], "; ".join(reasons)
            )
        )
    module.exit_json(changed=bool(pods), evicted=[full_name(pod) for pod in pods], left=left)


def refuse(module, pods, text):
    """Fail with a text about the node and these pods."""
    module.fail_json(msg=text.format(module.params["node"], ", ".join(full_name(pod) for pod in pods)))


def main():
    """Run as Ansible's module."""
    spec = dict(
        AUTH_ARG_SPEC,
        node=dict(type="str", required=True),
        resources=dict(type="list", elements="str", default=[]),
        force=dict(type="bool", default=False),
        delete_emptydir_data=dict(type="bool", default=True),
        wait_s=dict(type="int", default=300),
    )
    module = AnsibleK8SModule(argument_spec=spec, supports_check_mode=True)
    try:
        client = get_api_client(module)
        drain(module, Evictor(client.client.client, module.params["node"]))
    except (ApiException, CoreException) as error:
        module.fail_json(msg="the API server returned an error: {0}".format(error))
    except HTTPError as error:
        module.fail_json(msg="the API server does not answer: {0}".format(error))


if __name__ == "__main__":
    main()
