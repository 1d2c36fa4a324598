"""Admission policies: who writes allocations, the node of an agent, and access to nodes by pods of tenants.

The API server evaluates ValidatingAdmissionPolicies from Kubernetes 1.30 on. In older clusters only the seals
of the extender protect allocations.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from components.config import ClusterSettings
from components.manifests.conflict_checks import (
    HAS_UNITS,
    NO_STEP_UP,
    caution,
    without,
    without_beside_units,
)
from components.manifests.parts import Object
from components.manifests.policies import ANNOTATIONS, bound, requests, warnings
from gpushare.contract import (
    AGENT_NAME,
    ALLOCATION_ANNOTATIONS,
    ANN_PLACEMENT,
    CERTIFICATES_NAME,
    ENV_VISIBLE_DEVICES,
    EXTENDER_NAME,
    MANAGED_RESOURCES,
    METRICS_CERTIFICATES_NAME,
    MIRROR_ANNOTATION,
    RESOURCE_MEM,
    RESOURCE_TIME_SLICED_GPU,
    RESOURCE_WHOLE_GPU,
    STARTUP_TAINTS,
    SYSTEM_NAMESPACE,
    UNHEALTHY_PREFIX,
)
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.model.conflicts import (
    OWN_DEVICE_MOUNTS,
    OWN_FILES,
    OWN_GUARANTEE,
    OWN_PRELOAD,
    PRELOADED_DRIVER,
    ConflictRule,
)
from gpushare.model.demand import IMPLAUSIBLE, SUFFIX, UNITS_AND_WHOLE
from gpushare.scheduling.placement import DEFAULT, POLICIES

_FIRST_VERSION: Final = KubernetesVersion(1, 30)
_POD_WRITES: Final = ("pods", "pods/status", "pods/ephemeralcontainers", "pods/resize")
_NODE_CLAIM: Final = "authentication.kubernetes.io/node-name"
"""In every token of a pod's service account from Kubernetes 1.30 on."""
_NODE_FOLDERS: Final = "bin|boot|dev|etc|lib[0-9]*|proc|root|run|sbin|sys|usr|var/[./]*(lib|run)"
"""Folders with devices, sockets of the container runtime and the kubelet, or limits."""
_CDI_PREFIX: Final = "cdi.k8s.io/"
"""Annotations by which container runtimes add devices to a pod."""
_MPS_PREFIX: Final = "CUDA_MPS_"
_NO_SYSTEM_FOLDER: Final = (
    "object.spec.?volumes.orValue([]).all(v, !has(v.hostPath)"
    f" || !v.hostPath.path.matches('^[./]*(({_NODE_FOLDERS})(/.*)?|(var[./]*)?)$'))"
)
_NO_DEVICE_VARIABLE: Final = (
    f"{list(MANAGED_RESOURCES)}.exists(r, r in c.?resources.?limits.orValue({{}}))"
    f" || c.?env.orValue([]).all(e, e.name != '{ENV_VISIBLE_DEVICES}'"
    " || e.?value.orValue('all') in ['', 'none', 'void'])"
)
"""A container with units gets its GPU by a mount, and NVIDIA's runtime ignores its variable."""
_HIDING: Final = (OWN_PRELOAD, OWN_FILES, PRELOADED_DRIVER)
"""Rules about containers that would run without the isolation library."""
_WHERE: Final = "nodes that limit containers reject its pod"
_NODE_OF_CONFIG_MAP: Final = (
    f"(object.metadata.name.startsWith('{UNHEALTHY_PREFIX}')"
    f" ? object.metadata.name.substring({len(UNHEALTHY_PREFIX)}) : '')"
)
_NO_KEY: Final = "ConfigMaps and Secrets of tenants may not have the key"
_ALSO: Final = "the pods there and its ConfigMap"
_ONLY_STARTUP_TAINTS: Final = (
    "!variables.is_node || object.spec.?unschedulable == oldObject.spec.?unschedulable"
    " && (variables.after == variables.before || variables.after =="
    f" variables.before.filter(t, !(t.key in {list(STARTUP_TAINTS)})))"
)
_Validation = tuple[str, str]
"""A CEL expression that must be true, and one for the message if it is not."""


def objects(settings: ClusterSettings) -> list[Object]:
    """The policies and their bindings. None before Kubernetes 1.30."""
    if settings.kubernetes_version < _FIRST_VERSION:
        return []
    namespaces = [tenant.name for tenant in settings.tenants]
    for_tenants = [*_tenants(namespaces), *_tenant_variables(namespaces)] if namespaces else []
    return [*_allocations(), *_agents(), *_secrets(), *_requests(), *for_tenants]


def _allocations() -> list[Object]:
    """Only the extender and the agent write the annotations of an allocation, and only kubelets mirror pods.

    The kubelet's group may do both, because an agent may use the kubeconfig of its node.
    """
    ours = [_account(EXTENDER_NAME), _account(AGENT_NAME)]
    return _policy(
        "gpushare-allocations",
        (*_POD_WRITES, "pods/binding"),
        condition=f"!(request.userInfo.username in {ours}) && !('system:nodes' in request.userInfo.groups)",
        variables={
            "after": "object.metadata.?annotations.orValue({})",
            "before": "oldObject == null ? {} : oldObject.metadata.?annotations.orValue({})",
            "changed": f"{list(ALLOCATION_ANNOTATIONS)}"
            ".filter(key, variables.after[?key] != variables.before[?key])",
        },
        validations=[
            (
                "variables.changed.size() == 0",
                "'only gpushare may write the annotation ' + variables.changed.join(', ')",
            ),
            (
                f"variables.after[?'{MIRROR_ANNOTATION}'] == variables.before[?'{MIRROR_ANNOTATION}']",
                f"'only a kubelet may write the annotation {MIRROR_ANNOTATION}'",
            ),
        ],
    )


def _agents() -> list[Object]:
    """An agent writes only to its node, the pods of its node, and the ConfigMap of its node.

    Of the spec of its node, it may change the startup taints only.
    """
    return _policy(
        "gpushare-agents",
        ("nodes", "nodes/status", "configmaps", *_POD_WRITES),
        condition=f"request.userInfo.username == '{_account(AGENT_NAME)}'",
        variables={
            "own": f"request.userInfo.?extra[?'{_NODE_CLAIM}'].orValue([]).join(',')",
            "node": "request.resource.resource == 'nodes' ? object.metadata.name"
            f" : request.resource.resource == 'configmaps' ? {_NODE_OF_CONFIG_MAP}"
            " : object.spec.?nodeName.orValue('')",
            "is_node": "request.resource.resource == 'nodes' && oldObject != null",
            "before": "variables.is_node ? oldObject.spec.?taints.orValue([]) : []",
            "after": "variables.is_node ? object.spec.?taints.orValue([]) : []",
        },
        validations=[
            (
                "variables.own != '' && variables.node == variables.own",
                f"'an agent may write only to its node (' + variables.own + '), {_ALSO}'",
            ),
            (
                _ONLY_STARTUP_TAINTS,
                "'of the spec of its node, an agent may only remove startup taints'",
            ),
        ],
    )


def _secrets() -> list[Object]:
    """A Secret that our programs create is never the token of another account, which they could read."""
    accounts = [_account(each) for each in (EXTENDER_NAME, CERTIFICATES_NAME, METRICS_CERTIFICATES_NAME)]
    return _policy(
        "gpushare-secrets",
        ("secrets",),
        condition=f"request.userInfo.username in {accounts}",
        variables={},
        validations=[("object.type == 'Opaque'", "'gpushare creates Secrets of the type Opaque only'")],
    )


def _requests() -> list[Object]:
    """Warnings for those who apply pods or workloads that no node can take as they are written."""
    amount = f"quantity(c.resources.limits['{RESOURCE_MEM}'])"
    small = f"!({HAS_UNITS}) || {amount}.isLessThan(quantity('{IMPLAUSIBLE}'))"
    whole = f"{[RESOURCE_WHOLE_GPU, RESOURCE_TIME_SLICED_GPU]}.exists(r, r in c.resources.limits)"
    one_kind = f"!({HAS_UNITS}) || {amount}.compareTo(quantity('0')) == 0 || !{whole}"
    return warnings(
        "gpushare-requests",
        [
            _warning(small, SUFFIX),
            _warning(one_kind, UNITS_AND_WHOLE),
            _warning(without_beside_units(OWN_GUARANTEE), caution(OWN_GUARANTEE)),
            *(_warning(without_beside_units(rule), f"{caution(rule)}; {_WHERE}") for rule in _HIDING),
            _policy_warning(),
        ],
        [
            ("containers", "variables.pod.containers + variables.pod.?initContainers.orValue([])"),
            ("placement", f"{ANNOTATIONS}[?'{ANN_PLACEMENT}'].orValue('{DEFAULT}')"),
        ],
    )


def _policy_warning() -> Object:
    """Of a placement policy that does not exist."""
    return {
        "expression": f"variables.placement in {list(POLICIES)}",
        "messageExpression": f"'annotation {ANN_PLACEMENT}=' + variables.placement"
        f" + ' is not one of {', '.join(POLICIES)}'",
    }


def _warning(holds: str, text: str) -> Object:
    """``holds`` is about the container ``c``; the message names the first container that fails it."""
    failing = f"variables.containers.filter(c, !({holds}))"
    return {
        "expression": f"variables.containers.all(c, {holds})",
        "messageExpression": f"'container ' + {failing}[0].name + ': {text}'",
    }


def _tenants(namespaces: Sequence[str]) -> list[Object]:
    """Pods of tenants have no other access to GPUs than the units that they request."""
    return _policy(
        "gpushare-tenants",
        ("pods", "pods/status", "pods/ephemeralcontainers"),
        variables={
            "starts": "request.operation == 'CREATE'"
            " || request.?subResource.orValue('') == 'ephemeralcontainers'",
            "containers": "!variables.starts ? [] : object.spec.containers"
            " + object.spec.?initContainers.orValue([]) + object.spec.?ephemeralContainers.orValue([])",
            "cdi": "object.metadata.?annotations.orValue({})"
            f".filter(key, key.startsWith('{_CDI_PREFIX}')"
            " && (oldObject == null || !(key in oldObject.metadata.?annotations.orValue({}))))",
        },
        validations=[
            _pod_check("hostPID", "!object.spec.?hostPID.orValue(false)"),
            _pod_check("hostIPC", "!object.spec.?hostIPC.orValue(false)"),
            _pod_check("a hostPath volume in a folder of the system", f"({_NO_SYSTEM_FOLDER})"),
            _container_check("be privileged", "!c.?securityContext.?privileged.orValue(false)"),
            _container_check("have .. in the path of a mount", NO_STEP_UP),
            _conflict_check(OWN_DEVICE_MOUNTS, without(OWN_DEVICE_MOUNTS)),
            _conflict_check(OWN_GUARANTEE, without(OWN_GUARANTEE)),
            *(_conflict_check(rule, without_beside_units(rule)) for rule in _HIDING),
            _container_check(
                f"set {ENV_VISIBLE_DEVICES} without a limit of {MANAGED_RESOURCES[0]}", _NO_DEVICE_VARIABLE
            ),
            _container_check(
                f"set a variable {_MPS_PREFIX}*",
                f"c.?env.orValue([]).all(e, !e.name.startsWith('{_MPS_PREFIX}'))",
            ),
            _container_check(
                f"have a prefix in envFrom that may make a variable {_MPS_PREFIX}* or "
                f"{' or '.join(OWN_GUARANTEE.variables)}",
                "c.?envFrom.orValue([]).all(f, f.?prefix.orValue('') == ''"
                f" || !(f.prefix.startsWith('{_MPS_PREFIX}')"
                f" || {[_MPS_PREFIX, *OWN_GUARANTEE.variables]}.exists(n, n.startsWith(f.prefix))))",
            ),
            (
                "variables.cdi.size() == 0",
                "'pods of tenants may not have the annotation ' + variables.cdi.join(', ')",
            ),
        ],
        namespaces=namespaces,
    )


def _tenant_variables(namespaces: Sequence[str]) -> list[Object]:
    """No ConfigMap or Secret of a tenant has a variable that its pods may not have: ``envFrom`` adds it."""
    return _policy(
        "gpushare-tenants-variables",
        ("configmaps", "secrets"),
        variables={
            "before": "oldObject == null ? {} : oldObject.?data.orValue({})",
            "added": "object.?data.orValue({}).filter(key, !(key in variables.before)"
            f" && (key in {list(OWN_GUARANTEE.variables)} || key.startsWith('{_MPS_PREFIX}')))",
        },
        validations=[
            (
                "variables.added.size() == 0",
                f"'{_NO_KEY} ' + variables.added.join(', ') + ', which envFrom makes a variable'",
            )
        ],
        namespaces=namespaces,
    )


def _pod_check(what: str, holds: str) -> _Validation:
    return f"!variables.starts || {holds}", f"'pods of tenants may not have {what}'"


def _container_check(what: str, holds: str, remedy: str = "") -> _Validation:
    """``holds`` is about the container ``c``; ``remedy`` is an imperative, if it is not obvious."""
    failing = f"variables.containers.filter(c, !({holds})).map(c, c.name).join(', ')"
    advice = f" + '; {remedy}'" if remedy else ""
    message = f"'containers of tenants may not {what}: ' + {failing}{advice}"
    return f"variables.containers.all(c, {holds})", message


def _conflict_check(rule: ConflictRule, holds: str) -> _Validation:
    return _container_check(f"have {rule.declaration}, which {rule.effect}", holds, rule.remedy)


def _account(name: str) -> str:
    return f"system:serviceaccount:{SYSTEM_NAMESPACE}:{name}"


def _policy(
    name: str,
    resources: Sequence[str],
    *,
    variables: Mapping[str, str],
    validations: Sequence[_Validation],
    condition: str = "",
    namespaces: Sequence[str] = (),
) -> list[Object]:
    """A policy for writes to core resources, and its binding; without ``namespaces`` for all."""
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [requests("", resources, ["CREATE", "UPDATE"])]},
        **({"matchConditions": [{"name": "account", "expression": condition}]} if condition else {}),
        **({"variables": _named(variables)} if variables else {}),
        "validations": [
            {"expression": holds, "messageExpression": message, "reason": "Forbidden"}
            for holds, message in validations
        ],
    }
    only = {"matchResources": _only(namespaces)} if namespaces else {}
    return bound("ValidatingAdmissionPolicy", name, policy, {"validationActions": ["Deny"], **only})


def _named(variables: Mapping[str, str]) -> list[Object]:
    return [{"name": each, "expression": text} for each, text in variables.items()]


def _only(namespaces: Sequence[str]) -> Object:
    """By name: a tenant may be able to edit the labels of its namespace."""
    term = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}
    return {"namespaceSelector": {"matchExpressions": [term]}}
