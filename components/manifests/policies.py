"""Parts of admission policies: a policy with its binding, and policies that warn of what no node can take.

What does not belong here: what the policies say (``admission``, ``scheduler_name``).
"""

from collections.abc import Sequence
from typing import Final

from components.manifests.parts import Object

_POD_OF: Final = (
    "has(object.spec.jobTemplate) ? object.spec.jobTemplate.spec.template.spec"
    " : has(object.spec.template) ? object.spec.template.spec : object.spec"
)
"""CEL for the spec of the pods of a workload, or of a pod."""
ANNOTATIONS: Final = (
    "(has(object.spec.jobTemplate) ? object.spec.jobTemplate.spec.template.?metadata"
    " : has(object.spec.template) ? object.spec.template.?metadata"
    " : optional.of(object.metadata)).?annotations.orValue({})"
)
"""CEL for the annotations of the pods of a workload, or of a pod."""


def requests(group: str, resources: Sequence[str], operations: Sequence[str]) -> Object:
    """A rule: the requests that a policy or a webhook is about."""
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": list(resources),
    }


def bound(kind: str, name: str, policy: Object, binding: Object) -> list[Object]:
    """The policy and its binding."""
    return [_object(kind, name, policy), _object(f"{kind}Binding", name, {"policyName": name, **binding})]


def warnings(
    name: str, validations: Sequence[Object], variables: Sequence[tuple[str, str]] = ()
) -> list[Object]:
    """A policy that warns those who apply pods or workloads; ``variables.pod`` is the spec of the pods."""
    writes = ["CREATE", "UPDATE"]
    policy = {
        "failurePolicy": "Ignore",
        "matchConstraints": {
            "resourceRules": [
                requests("", ["pods"], ["CREATE"]),
                requests("apps", ["deployments", "statefulsets", "daemonsets"], writes),
                requests("batch", ["jobs", "cronjobs"], writes),
            ]
        },
        "variables": [{"name": each, "expression": text} for each, text in (("pod", _POD_OF), *variables)],
        "validations": list(validations),
    }
    return bound("ValidatingAdmissionPolicy", name, policy, {"validationActions": ["Warn"]})


def _object(kind: str, name: str, spec: Object) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
