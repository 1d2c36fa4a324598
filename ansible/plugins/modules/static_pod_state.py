#!/usr/bin/python
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Reads what a host shows of a static pod at one moment."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: static_pod_state
short_description: Read processes, starts, log and answers of a static pod
version_added: 0.1.0
description:
  - Reads the state once. Changes nothing, and waits for nothing.
options:
  program:
    description: File name of the program of the pod.
    type: str
    default: kube-scheduler
  words:
    description: The end of its command line. Empty means any.
    type: list
    elements: str
    default: []
  pod:
    description: The pod, as C(<namespace>_<name>).
    type: str
    default: kube-system_kube-scheduler
  urls:
    description: The URLs to request.
    type: list
    elements: str
    default: []
  timeout_s:
    description: Timeout of a request, in seconds.
    type: int
    default: 5
  ca_file:
    description: Trusted CA certificates. Without them, certificates are not verified.
    type: path
  cert_file:
    description: Client certificate.
    type: path
  key_file:
    description: Key of that certificate.
    type: path
  server_name:
    description: Name in the certificate of the server, if it differs from the URL.
    type: str
attributes:
  check_mode:
    description: Runs the same in check mode.
    support: full
author:
  - The gpushare authors
"""

EXAMPLES = r"""
- name: Read the state of kube-scheduler
  gpushare.nodes.static_pod_state:
    urls: ["https://127.0.0.1:10259/livez"]
"""

RETURN = r"""
processes:
  description: The program's processes, as PID@START.
  returned: always
  type: list
  elements: str
starts:
  description: How often the pod was started, by the folder of its logs. Counted before the processes.
  returned: always
  type: dict
log:
  description: The last lines of its log.
  returned: always
  type: list
  elements: str
problems:
  description: By URL, why it does not answer 200. Empty if it does.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpushare.nodes.plugins.module_utils import static_pods

_TLS = ("ca_file", "cert_file", "key_file", "server_name")


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "program": {"type": "str", "default": "kube-scheduler"},
            "words": {"type": "list", "elements": "str", "default": []},
            "pod": {"type": "str", "default": "kube-system_kube-scheduler"},
            "urls": {"type": "list", "elements": "str", "default": []},
            "timeout_s": {"type": "int", "default": 5},
            "ca_file": {"type": "path"},
            "cert_file": {"type": "path"},
            "key_file": {"type": "path", "no_log": False},
            "server_name": {"type": "str"},
        },
        supports_check_mode=True,
    )
    params = module.params
    logs = "/var/log/pods/{0}-*/*/*.log".format(params["pod"])
    tls = {name: params[name] for name in _TLS}
    # Before the processes: a start that is counted and has no process then has ended.
    started = static_pods.starts(logs)
    module.exit_json(
        changed=False,
        starts=started,
        processes=static_pods.processes(params["program"], params["words"]),
        log=static_pods.last_lines(logs),
        problems={url: static_pods.problem_of(url, tls, params["timeout_s"]) for url in params["urls"]},
    )


if __name__ == "__main__":
    main()
