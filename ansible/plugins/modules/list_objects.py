#!/usr/bin/python
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Lists objects of the API without their field managers."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: list_objects
short_description: List objects of the API without their field managers
version_added: 0.1.0
description:
  - Every user may nest C(managedFields) of own objects up to 10,000 levels deep. From about 1,000 levels on,
    P(kubernetes.core.k8s_info#module) cannot read such a list, and fewer can stop the controller.
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
options:
  path:
    description: Path of the list, such as C(/api/v1/nodes).
    type: str
    required: true
  field_selector:
    description: Selects objects by their fields, such as C(spec.nodeName=gpu-1). Empty means all objects.
    type: str
    default: ""
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
  gpushare.nodes.list_objects:
    path: /api/v1/nodes
  delegate_to: localhost
"""

RETURN = r"""
resources:
  description: The objects.
  returned: success
  type: list
  elements: dict
"""

from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException

from ansible_collections.gpushare.nodes.plugins.module_utils import deep_json

try:
    from kubernetes.client.rest import ApiException
    from urllib3.exceptions import HTTPError
except ImportError:
    # AnsibleK8SModule reports this.
    ApiException = HTTPError = Exception


def listed(module):
    """Return the objects."""
    client = get_api_client(module).client
    selector = module.params["field_selector"] or None
    answer = client.request("get", module.params["path"], serialize=False, field_selector=selector)
    objects = deep_json.loads(answer.data.decode("utf-8"))["items"]
    for each in objects:
        each["metadata"].pop("managedFields", None)
    return objects


def main():
    """Run as Ansible's module."""
    spec = dict(
        AUTH_ARG_SPEC, path=dict(type="str", required=True), field_selector=dict(type="str", default="")
    )
    module = AnsibleK8SModule(argument_spec=spec, supports_check_mode=True)
    try:
        module.exit_json(changed=False, resources=listed(module))
    except ApiException as error:
        module.fail_json(msg="{0} {1}: {2}".format(error.status, error.reason, error.body))
    except (CoreException, HTTPError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
