#!/usr/bin/python
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The documentation of an action plugin, which runs on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: read_objects
short_description: Read objects of the API
version_added: 0.1.0
description:
  - Runs in the process of Ansible on the controller, without a separate Python for each host.
  - Every user may nest C(managedFields) of own objects up to 10,000 levels deep. From about 1,000 levels on,
    P(kubernetes.core.k8s_info#module) cannot read such a list, and fewer can stop the controller.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
options:
  path:
    description: Path of the list, such as C(/api/v1/nodes).
    type: str
    required: true
  name:
    description: Name of one object of the list. Empty means all objects.
    type: str
    default: ""
  field_selector:
    description: Selects objects by their fields, such as C(spec.nodeName=gpu-1). Empty means all objects.
    type: str
    default: ""
  managed_fields:
    description: Whether the objects have their field managers.
    type: bool
    default: false
attributes:
  check_mode:
    description: Runs the same in check mode.
    support: full
requirements: [kubernetes]
author:
  - The gpushare authors
"""

EXAMPLES = r"""
- name: Read the nodes
  gpushare.nodes.read_objects:
    path: /api/v1/nodes
"""

RETURN = r"""
resources:
  description: The objects, none if there is no object of that name.
  returned: success
  type: list
  elements: dict
"""
