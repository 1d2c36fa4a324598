#!/usr/bin/python
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Waits until the kubelet runs a static pod as its manifest says, and the pod is well."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: static_pod_health
short_description: Wait until the kubelet runs a static pod as its manifest says, and the pod is well
version_added: 0.1.0
description:
  - Looks for the pod's process on the host, for one that was started after the manifest was changed.
  - Asks the pod's health and stays a while, to see that it does not end again.
  - Changes nothing. Says why a pod is not well, with the last lines of its log.
options:
  program:
    description: File name of the program that the pod runs.
    type: str
    required: true
  argument:
    description: A word that its command line must have. Empty where any will do.
    type: str
    default: ""
  replaced:
    description: What this module returned as RV(processes) before the change. These count no more.
    type: list
    elements: str
    default: []
  urls:
    description: Groups of URLs. One of each group must answer 200. Certificates are not verified.
    type: list
    elements: list
    default: []
  wait_s:
    description: How long to wait. 0 looks once and does not fail.
    type: int
    default: 0
  settle_s:
    description: How long it must be well without a new start.
    type: int
    default: 5
  logs:
    description: Pattern of the files of the pod's log.
    type: str
    default: /var/log/pods/kube-system_kube-scheduler-*/kube-scheduler/*.log
attributes:
  check_mode:
    description: Runs the same in check mode.
    support: full
author:
  - The gpushare authors
"""

EXAMPLES = r"""
- name: Wait for the scheduler of the new manifest
  gpushare.nodes.static_pod_health:
    program: kube-scheduler
    urls: [["https://127.0.0.1:10259/livez", "https://127.0.0.1:10259/healthz"]]
    wait_s: 120
"""

RETURN = r"""
processes:
  description: The program's processes, as PID@START.
  returned: always
  type: list
  elements: str
healthy:
  description: Whether the pod is well.
  returned: always
  type: bool
why:
  description: What is wrong, empty where nothing is.
  returned: always
  type: str
log:
  description: The last lines of its log, where it is not well.
  returned: always
  type: list
  elements: str
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.text.converters import to_native
from ansible.module_utils.urls import open_url

from ansible_collections.gpushare.nodes.plugins.module_utils.static_pod_health import last_words, processes

_POLL_S = 0.5
_ANSWER_S = 5


def answer(url):
    """Empty where it is 200, else what it is."""
    try:
        open_url(url, validate_certs=False, timeout=_ANSWER_S, use_proxy=False)
    except Exception as error:  # noqa: BLE001 - what a starting server does has many names in two Pythons
        return "{0}: {1}".format(url, to_native(error))
    return ""


def first_problem(urls):
    """The first group of URLs of which none is well, as text."""
    for group in urls:
        answers = []
        for url in group:
            answers.append(answer(url))
            if not answers[-1]:
                break
        if answers and all(answers):
            return "; ".join(answers)
    return ""


def look(params):
    """The processes that count, and what is wrong."""
    found = processes(params["program"], params["argument"])
    current = [each for each in found if each not in params["replaced"]]
    if current:
        return current, first_problem(params["urls"])
    if found:
        return [], "the process {0} from before still runs".format(", ".join(found))
    wanted = " with {0}".format(params["argument"]) if params["argument"] else ""
    return [], "no process {0}{1} runs".format(params["program"], wanted)


def wait(params):
    """Processes and problem after at most wait_s seconds, earlier where it is well for settle_s."""
    deadline = time.time() + params["wait_s"]
    well, since = [], 0.0
    while True:
        found, problem = look(params)
        now = time.time()
        if problem or found != well:
            well, since = ([] if problem else found), now
        elif now - since >= params["settle_s"]:
            return found, ""
        if now >= deadline:
            return found, problem or "it was not well for {0} s in a row".format(params["settle_s"])
        time.sleep(_POLL_S)


def main():
    """Run as Ansible's module."""
    module = AnsibleModule(
        argument_spec=dict(
            program=dict(type="str", required=True),
            argument=dict(type="str", default=""),
            replaced=dict(type="list", elements="str", default=[]),
            urls=dict(type="list", elements="list", default=[]),
            wait_s=dict(type="int", default=0),
            settle_s=dict(type="int", default=5),
            logs=dict(type="str", default="/var/log/pods/kube-system_kube-scheduler-*/kube-scheduler/*.log"),
        ),
        supports_check_mode=True,
    )
    params = module.params
    found, problem = wait(params) if params["wait_s"] else look(params)
    log = last_words(params["logs"]) if problem else []
    result = dict(processes=found, healthy=not problem, why=problem, log=log)
    if problem and params["wait_s"]:
        told = "{0} is not well after {1} s: {2}".format(params["program"], params["wait_s"], problem)
        module.fail_json(msg=told, **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
