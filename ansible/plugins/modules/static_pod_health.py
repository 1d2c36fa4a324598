#!/usr/bin/python
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Waits until the kubelet runs a static pod from its current manifest, and the pod is healthy."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: static_pod_health
short_description: Wait until the kubelet runs a static pod from its current manifest, and the pod is healthy
version_added: 0.1.0
description:
  - Searches the host for a process of the pod that was started after the change of the manifest.
  - Checks the health of the pod for some time, to detect restarts.
  - Changes nothing. Reports why a pod is not healthy, with the last lines of its log.
options:
  program:
    description: File name of the program of the pod.
    type: str
    required: true
  argument:
    description: A required argument of its command line. Empty means none.
    type: str
    default: ""
  replaced:
    description: The RV(processes) from before the change, which are ignored.
    type: list
    elements: str
    default: []
  started:
    description:
      - The RV(started) from before the change.
      - A pod that has ended three times since then, and does not run, is not waited for any longer.
    type: dict
  urls:
    description: Groups of URLs. One of each group must answer 200. Certificates are not verified.
    type: list
    elements: list
    default: []
  wait_s:
    description: Timeout in seconds. 0 checks once and does not fail.
    type: int
    default: 0
  settle_s:
    description: How long it must stay healthy without a restart, in seconds.
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
started:
  description: How often the pod was started, by the folder of its logs.
  returned: always
  type: dict
healthy:
  description: Whether the pod is healthy.
  returned: always
  type: bool
why:
  description: The problem, empty if there is none.
  returned: always
  type: str
log:
  description: The last lines of its log, if it is not healthy.
  returned: always
  type: list
  elements: str
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.text.converters import to_native
from ansible.module_utils.urls import open_url

from ansible_collections.gpushare.nodes.plugins.module_utils.static_pod_health import (
    last_lines,
    processes,
    starts,
)

_POLL_S = 0.5
_ANSWER_S = 5
_GIVE_UP = 3
"""Starts after which a pod that does not run is given up: the kubelet waits 10 s before the third."""


def answer(url):
    """Return "" if the answer is 200, else the problem."""
    try:
        open_url(url, validate_certs=False, timeout=_ANSWER_S, use_proxy=False)
    except Exception as error:  # noqa: BLE001 - the error classes differ between Python versions
        return "{0}: {1}".format(url, to_native(error))
    return ""


def first_problem(urls):
    """Return the problem of the first group without a healthy URL, else ""."""
    for group in urls:
        answers = []
        for url in group:
            answers.append(answer(url))
            if not answers[-1]:
                break
        if answers and all(answers):
            return "; ".join(answers)
    return ""


def check(params):
    """Return the new processes and the problem."""
    found = processes(params["program"], params["argument"])
    current = [each for each in found if each not in params["replaced"]]
    if current:
        return current, first_problem(params["urls"])
    if found:
        return [], "the previous process {0} is still running".format(", ".join(found))
    wanted = " with {0}".format(params["argument"]) if params["argument"] else ""
    return [], "no process {0}{1} is running".format(params["program"], wanted)


def starts_since(params):
    """Return how often the pod was started since the change; 0 without the starts from before."""
    if params["started"] is None:
        return 0
    now = starts(params["logs"])
    return max([count - int(params["started"].get(folder, 0)) for folder, count in now.items()] or [0])


def wait(params):
    """Return processes and problem after at most wait_s seconds.

    Earlier if the pod was healthy for settle_s, or is given up.
    """
    deadline = time.time() + params["wait_s"]
    healthy, since, had_ended = [], 0.0, False
    while True:
        # Counted before the look at the processes: a start that is counted and has no process then has ended.
        ended = starts_since(params)
        found, problem = check(params)
        now = time.time()
        if problem or found != healthy:
            healthy, since = ([] if problem else found), now
        elif now - since >= params["settle_s"]:
            return found, ""
        has_ended = not found and ended >= _GIVE_UP
        if has_ended and had_ended:
            return found, "{0}: it has ended {1} times".format(problem, ended)
        # Once more: the container runtime may still write the last lines of the log.
        had_ended = has_ended
        if now >= deadline:
            return found, problem or "it was not healthy for {0} s in a row".format(params["settle_s"])
        time.sleep(_POLL_S)


def main():
    """Run as Ansible's module."""
    module = AnsibleModule(
        argument_spec=dict(
            program=dict(type="str", required=True),
            argument=dict(type="str", default=""),
            replaced=dict(type="list", elements="str", default=[]),
            started=dict(type="dict"),
            urls=dict(type="list", elements="list", default=[]),
            wait_s=dict(type="int", default=0),
            settle_s=dict(type="int", default=5),
            logs=dict(type="str", default="/var/log/pods/kube-system_kube-scheduler-*/kube-scheduler/*.log"),
        ),
        supports_check_mode=True,
    )
    params = module.params
    began = time.time()
    found, problem = wait(params) if params["wait_s"] else check(params)
    log = last_lines(params["logs"]) if problem else []
    result = dict(
        processes=found, started=starts(params["logs"]), healthy=not problem, why=problem, log=log
    )
    if problem and params["wait_s"]:
        after = int(time.time() - began)
        message = "{0} is not healthy after {1} s: {2}".format(params["program"], after, problem)
        module.fail_json(msg=message, **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
