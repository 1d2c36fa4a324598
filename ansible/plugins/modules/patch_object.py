#!/usr/bin/python
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The documentation of an action plugin, which runs on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: patch_object
short_description: Change fields of an object of the API
version_added: 0.1.0
description:
  - Runs in the process of Ansible on the controller, without a separate Python for each host.
  - Reports and shows only the fields of the patch, because others change at any time.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
options:
  path:
    description: Path of the object, such as C(/api/v1/nodes/gpu-1).
    type: str
    required: true
  patch:
    description: A merge patch (RFC 7396).
    type: dict
    required: true
attributes:
  check_mode:
    description: The API server checks the patch and changes nothing.
    support: full
  diff_mode:
    description: Shows the fields of the patch before and after.
    support: full
requirements: [kubernetes]
author:
  - The gpushare authors
"""

EXAMPLES = r"""
- name: Cordon a node
  gpushare.nodes.patch_object:
    path: /api/v1/nodes/gpu-1
    patch: {spec: {unschedulable: true}}
"""

RETURN = r"""# """
