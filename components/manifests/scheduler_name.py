"""Policies for pods that request GPU memory: they get the scheduler of the sidecar unless they name another.

From Kubernetes 1.36 on, a MutatingAdmissionPolicy sets the name, so that manifests need no change. Earlier
API servers have these policies only behind a feature gate. There a webhook does the same if it is configured
(``components.manifests.webhook``); else, from 1.30 on, a ValidatingAdmissionPolicy warns those who apply a
pod or a workload without the name.
"""

from typing import Final

from components.config_extender import FIRST_MUTATING, Extender, Scheduler
from components.manifests import webhook
from components.manifests.parts import Object
from components.manifests.policies import bound, requests, warnings
from gpushare.contract import MANAGED_RESOURCES, SCHEDULER_NAMING
from gpushare.kubescheduler.config import DEFAULT_SCHEDULER, KubernetesVersion

_FIRST_VALIDATING: Final = KubernetesVersion(1, 30)


def objects(extender: Extender, scheduler: Scheduler, version: KubernetesVersion) -> list[Object]:
    """What names the scheduler of new pods, or warns; nothing before Kubernetes 1.30 without the webhook."""
    if version >= FIRST_MUTATING:
        return _mutating(scheduler.name)
    if scheduler.webhook:
        return webhook.objects(
            extender, scheduler.name, scheduler.webhook, conditions("object.spec"), version
        )
    return _warning(scheduler.name) if version >= _FIRST_VALIDATING else []


def conditions(pod: str) -> dict[str, str]:
    """CEL conditions by name that are all true for a pod without a scheduler; ``pod`` is its spec in CEL."""
    return {
        "no-scheduler": f"{pod}.?schedulerName.orValue('') in ['', '{DEFAULT_SCHEDULER}']",
        "no-node": f"{pod}.?nodeName.orValue('') == ''",
        "gpu-memory": f"({pod}.containers + {pod}.?initContainers.orValue([])).exists(c, "
        f"{list(MANAGED_RESOURCES)}.exists(r, r in c.?resources.?limits.orValue({{}})))",
    }


def _mutating(scheduler: str) -> list[Object]:
    """A JSON patch, because a merge rejects pods whose lists have duplicates, which the API accepts."""
    patch = f"[JSONPatch{{op: 'add', path: '/spec/schedulerName', value: '{scheduler}'}}]"
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [requests("", ["pods"], ["CREATE"])]},
        "matchConditions": [
            {"name": name, "expression": text} for name, text in conditions("object.spec").items()
        ],
        "reinvocationPolicy": "IfNeeded",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
    }
    return bound("MutatingAdmissionPolicy", SCHEDULER_NAMING, policy, {})


def _warning(scheduler: str) -> list[Object]:
    concerned = " && ".join(f"({text})" for text in conditions("variables.pod").values())
    message = (
        f"pods that request GPU memory need schedulerName: {scheduler}; the default scheduler does not know "
        "the free memory of each GPU"
    )
    return warnings(SCHEDULER_NAMING, [{"expression": f"!({concerned})", "message": message}])
