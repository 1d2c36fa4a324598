"""Whether kube-scheduler asks the extender, told by what happens to a pod that only the extender refuses.

The probe asks for one unit and, by its label, for more cards than any node has. To kube-scheduler alone
it fits wherever a unit is free; the extender knows that no node has so many cards. What does not belong
here: creating and removing it. Pure.
"""

from typing import Final

from ansible_collections.gpushare.nodes.plugins.plugin_utils.checks import Check, Document, Level
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.contract import RESOURCE_MEM

CARDS: Final = 1000
"""As the probe's label in the role's variables says."""
_REPAIR: Final = "run the role scheduler_extender"


def checks(nodes: Document, probe: Document) -> list[Check]:
    """Return the checks of the cluster itself.

    ``nodes`` is what kubernetes.core.k8s_info answered. ``probe`` has ``refused``, why the pod could not be
    made, and its ``events``; it is empty where the scheduler was not to be tried.
    """
    if "resources" not in nodes:
        problem = (
            f"the API cannot be read ({nodes.get('msg', 'no answer')}): see validate_kubeconfig and "
            "validate_context"
        )
        return [Check("api", Level.FAIL, "no answer", problem)]
    api = Check("api", Level.OK, f"{len(nodes['resources'])} nodes")
    return [api, _scheduler(probe)] if probe else [api]


def _scheduler(probe: Document) -> Check:
    if probe["refused"]:
        problem = f"the probe could not be made ({probe['refused']}): see validate_probe_namespace"
        return Check("scheduler", Level.FAIL, "not asked", problem)
    said = {event["reason"]: event["message"] for event in probe["events"]}
    if "Scheduled" in said:
        problem = (
            f"it placed a pod of {CARDS} cards without asking the extender ({said['Scheduled']}): {_REPAIR}"
        )
        return Check("scheduler", Level.FAIL, "without extender", problem)
    if "FailedScheduling" in said:
        return _by_message(said["FailedScheduling"])
    problem = "it said nothing of the probe: does a scheduler of the name validate_scheduler_name run?"
    return Check("scheduler", Level.FAIL, "silent", problem)


def _by_message(message: str) -> Check:
    if f"{CARDS} cards" in message:
        return Check("scheduler", Level.OK, "asks the extender")
    if f"Insufficient {RESOURCE_MEM}" in message:
        problem = (
            f"no node has a unit of {RESOURCE_MEM} free, so it could not be seen whether it asks: {message}"
        )
        return Check("scheduler", Level.WARN, "unknown", problem)
    problem = f"it cannot place pods that share cards: {message}; if that is the extender's URL, {_REPAIR}"
    return Check("scheduler", Level.FAIL, "failing", problem)
