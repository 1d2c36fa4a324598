#!/usr/bin/python
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The documentation of an action plugin, which runs on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: extender_url
short_description: Find the URL at which a host reaches the extender
version_added: 0.1.0
description:
  - Asks the extender from the host, as its scheduler does, and selects the first URL that answers.
options:
  urls:
    description: >-
      Possible URLs, by preference. Empty means the NodePort on 127.0.0.1, then on the address of the host.
    type: list
    elements: str
    default: []
  address:
    description: Address of the host for these. Empty means that of its default route.
    type: str
    default: ""
  tls:
    description: Files on the host, C(ca_file), C(cert_file), C(key_file), and C(server_name).
    type: dict
    default: {}
  timeout_s:
    description: Timeout of a request, in seconds.
    type: int
    default: 5
  probe:
    description: V(before) fails if none answers, V(after) then selects the first, V(never) asks none.
    type: str
    choices: [before, after, never]
    default: before
attributes:
  check_mode:
    description: Does not fail if none answers.
    support: full
author:
  - The gpushare authors
"""

EXAMPLES = r"""
- name: Find the extender
  gpushare.nodes.extender_url:
  register: found
"""

RETURN = r"""
url:
  description: The selected URL.
  returned: success
  type: str
msg:
  description: The answer of each.
  returned: if they were asked
  type: str
"""
