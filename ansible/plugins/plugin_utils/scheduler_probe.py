"""Checks that kube-scheduler calls the extender, with a pod that only the extender rejects. Pure.

The probe requests one unit and, with its label, more GPUs than any node has. For kube-scheduler alone it fits
wherever a unit is free; the extender rejects it. What does not belong here: creating and removing the pod.
"""

from typing import Final

from ansible_collections.gpushare.nodes.plugins.plugin_utils.checks import Check, Document, Level
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.contract import RESOURCE_MEM

CARDS: Final = 1000
"""The value of the label of the probe in the variables of the role."""
_FIX: Final = "run the role scheduler_extender"


def checks(nodes: Document, probe: Document) -> list[Check]:
    """Return the checks of the cluster itself.

    ``nodes`` is the result of read_objects. ``probe`` has ``refused``, why the pod could not be created, and
    its ``events``; it is empty if the scheduler is not tested.
    """
    if "resources" not in nodes:
        problem = (
            f"the API cannot be read ({nodes.get('msg', 'no answer')}): check validate_kubeconfig and "
            "validate_context"
        )
        return [Check("api", Level.FAIL, "no answer", problem)]
    api = Check("api", Level.OK, f"{len(nodes['resources'])} nodes")
    return [api, _scheduler(probe)] if probe else [api]


def _scheduler(probe: Document) -> Check:
    if probe["refused"]:
        problem = f"the probe could not be created ({probe['refused']}): check validate_probe_namespace"
        return Check("scheduler", Level.FAIL, "not tested", problem)
    messages = {event["reason"]: event["message"] for event in probe["events"]}
    if "Scheduled" in messages:
        problem = f"it placed a pod on {CARDS} GPUs without the extender ({messages['Scheduled']}): {_FIX}"
        return Check("scheduler", Level.FAIL, "without extender", problem)
    if "FailedScheduling" in messages:
        return _by_message(messages["FailedScheduling"])
    problem = (
        "it reported no event for the probe: check that the scheduler of validate_scheduler_name is running"
    )
    return Check("scheduler", Level.FAIL, "no event", problem)


def _by_message(message: str) -> Check:
    if f"over {CARDS} " in message:
        return Check("scheduler", Level.OK, "calls the extender")
    if f"Insufficient {RESOURCE_MEM}" in message:
        problem = f"no node has a free unit of {RESOURCE_MEM} to test calls of the extender: {message}"
        return Check("scheduler", Level.WARN, "unknown", problem)
    problem = f"it cannot place pods that share GPUs: {message}; if this is the URL of the extender, {_FIX}"
    return Check("scheduler", Level.FAIL, "failing", problem)
