#!/usr/bin/python
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The documentation of an action plugin, which runs on the controller."""

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

- name: Evict what uses whole GPUs
  gpushare.nodes.evict_pods:
    node: gpu-1
    resources: [nvidia.com/gpu]
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
