#!/usr/bin/python
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The documentation of an action plugin, which runs on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: scheduler_manifest
short_description: Add the extender to the static pod of kube-scheduler, or remove it
version_added: 0.1.0
description:
  - The same edit as C(gpushare scheduler-manifest), from the controller. Records the previous files in a
    journal, writes the manifest last, waits until the new scheduler is healthy and the extender answers, and
    restores everything if not. The next run completes or undoes an interrupted one.
options:
  state:
    description: V(absent) restores the manifest byte for byte, unless it has other changes.
    type: str
    choices: [present, absent]
    default: present
  extender:
    description: >-
      The extender: C(url), C(weight), C(http_timeout_s), and C(tls) with C(ca_file), C(cert_file),
      C(key_file) and C(server_name).
    type: dict
    default: {}
  kubernetes_version:
    description: Version of the scheduler, if the tag of its image is not a version.
    type: str
    default: ""
  manifest:
    description: The static pod of kube-scheduler.
    type: path
    default: /etc/kubernetes/manifests/kube-scheduler.yaml
  backup:
    description: The manifest before the edit. The journal is beside it.
    type: path
    default: /etc/kubernetes/manifests-backup/kube-scheduler.ori.yaml
  policy_file:
    description: Path of a Policy, for kube-scheduler up to 1.22. By default in C(/etc/kubernetes/gpushare).
    type: path
  probe:
    description: Whether the extender must answer before and after the edit, only after it, or not at all.
    type: str
    choices: [before, after, never]
    default: before
  wait_s:
    description: Timeout until the scheduler is healthy, in seconds.
    type: int
    default: 120
  settle_s:
    description: How long it must stay healthy, in seconds.
    type: int
    default: 5
  answer_s:
    description: Timeout until the extender answers after that, in seconds.
    type: int
    default: 30
  plan_only:
    description: Only check that the edit is possible.
    type: bool
    default: false
attributes:
  check_mode:
    description: Shows the changes.
    support: full
  diff_mode:
    description: In check mode only.
    support: partial
author:
  - The gpushare authors
"""

EXAMPLES = r"""
- name: Remove the extender
  gpushare.nodes.scheduler_manifest:
    state: absent
"""

RETURN = r"""
done:
  description: What was changed, removed or restored, one line each.
  returned: if not in check mode
  type: list
  elements: str
"""
