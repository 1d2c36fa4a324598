"""Checks of the API server and of what all services share: rights, policies, versions, metrics API. Pure."""

import re
from functools import partial
from typing import Final

from gpushare import __version__
from gpushare.cli.doctor.checks.extender import evicts, without_lease
from gpushare.cli.doctor.installation import Installation, Unread, required
from gpushare.cli.doctor.rights import EVICTION, LEASE_RIGHTS
from gpushare.cli.doctor.verdict import CheckVerdict, check, failed, ok, unknown, unread, warning
from gpushare.contract import (
    AGENT_NAME,
    EXPORTER_NAME,
    EXTENDER_NAME,
    METRICS_API_GROUP,
    METRICS_API_NAME,
    METRICS_API_VERSIONS,
    METRICS_CERTIFICATES_NAME,
    SYSTEM_NAMESPACE,
    USAGE_API_GROUP,
    USAGE_API_VERSION,
)
from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import KubernetesVersion, parse_version
from gpushare.overview.words import listed

_POLICIES: Final = ("gpushare-agents", "gpushare-allocations", "gpushare-secrets")
_FIRST_WITH_POLICIES: Final = KubernetesVersion(1, 30)
_OURS: Final = (EXTENDER_NAME, AGENT_NAME, EXPORTER_NAME, METRICS_API_NAME)
_API_SERVICES: Final = (
    f"{USAGE_API_VERSION}.{USAGE_API_GROUP}",
    *(f"{version}.{METRICS_API_GROUP}" for version in METRICS_API_VERSIONS),
)
_RELEASE: Final = re.compile(r"v?\d+\.\d+\.\d+\S*")


@check("api-server", "Kubernetes version")
def api_server(seen: Installation) -> CheckVerdict:
    """Whether the version of Kubernetes is supported."""
    version = required(seen.version)
    try:
        parse_version(version)
    except ConfigError as error:
        return failed(str(error))
    return ok(version)


def _rights(account: str, seen: Installation) -> CheckVerdict:
    """Whether a service account has the rights that it needs."""
    answers = {right: answer for (who, right), answer in seen.reviews.items() if who == account}
    required(seen.system_pods)
    if not seen.pods_of(account):
        return unknown(f"{account} does not run as a pod here")
    optional = LEASE_RIGHTS if account == EXTENDER_NAME and without_lease(seen) else frozenset()
    unused = {str(EVICTION)} if account == EXTENDER_NAME and not evicts(seen) else frozenset()
    answers = {right: answer for right, answer in answers.items() if right not in unused}
    denied = [right for right, answer in answers.items() if answer is False and right not in optional]
    if denied:
        return failed(
            f"service account {account} may not {listed(denied)}",
            f"kubectl get clusterrolebinding,clusterrole {account} -o yaml",
        )
    if problem := next((each for each in answers.values() if isinstance(each, Unread)), None):
        return unread(
            problem,
            "kubectl auth can-i --list --as system:serviceaccount:"
            f"{SYSTEM_NAMESPACE}:{account} -n {SYSTEM_NAMESPACE}",
        )
    return ok("all but the rights to its Lease; it binds without a Lease" if optional else "all")


rights_extender: Final = check("rights-extender", "Rights of the extender")(partial(_rights, EXTENDER_NAME))
rights_agent: Final = check("rights-agent", "Rights of the node agent")(partial(_rights, AGENT_NAME))
rights_exporter: Final = check("rights-exporter", "Rights of the exporter")(partial(_rights, EXPORTER_NAME))


@check("admission", "Admission policies")
def admission(seen: Installation) -> CheckVerdict:
    """Whether admission policies protect allocations."""
    version = required(seen.version)
    if not _evaluates_policies(version):
        return ok(f"Kubernetes {version} has no admission policies; seals protect allocations")
    policies = required(seen.policies)
    missing = [name for name in _POLICIES if name not in policies]
    if missing:
        return warning(
            f"missing or not bound: {listed(missing)}; users can write the annotations of allocations",
            "kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings",
        )
    return ok(listed(list(_POLICIES)))


def _evaluates_policies(version: str) -> bool:
    try:
        return parse_version(version) >= _FIRST_WITH_POLICIES
    except ConfigError:
        return True


@check("versions", "Versions")
def versions(seen: Installation) -> CheckVerdict:
    """Whether the services and this program have one version, from the tags of images."""
    required(seen.system_pods)
    found = {
        (tag, component)
        for component in _OURS
        for pod in seen.pods_of(component)
        for container in pod.spec.containers
        if "kube-scheduler" not in container.image and (tag := _tag(container.image))
    }
    if not found:
        return unknown("no image has a version as its tag", f"kubectl get pods -n {SYSTEM_NAMESPACE} -o wide")
    tags = {tag for tag, _ in found}
    if tags == {__version__}:
        return ok(__version__)
    texts = [f"{component} {tag}" for tag, component in sorted(found)]
    return warning(
        f"{listed(texts)}, this program {__version__}",
        "set the images of one release in the stack or the chart",
    )


def _tag(image: str) -> str:
    """The version in the tag of an image; empty for a digest, or a tag that is no version."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return tag.removeprefix("v") if _RELEASE.fullmatch(tag) else ""


@check("metrics-api", "Metrics API")
def metrics_api(seen: Installation) -> CheckVerdict:
    """Whether the API server reaches the metrics API, if it is deployed."""
    found = [each for each in required(seen.api_services) if each.metadata.name in _API_SERVICES]
    if not found:
        return ok("not deployed: users of one namespace get no answers, and the HPA no GPU metrics")
    down = [
        (each.metadata.name, condition.message)
        for each in found
        for condition in each.status.conditions or ()
        if condition.type == "Available" and condition.status != "True"
    ]
    if not down:
        return ok(f"{listed([each.metadata.name for each in found])}: available")
    told = listed([f"{name}: {message}" for name, message in down])
    return failed(f"{told}; until then, deleted namespaces stay Terminating", _remedy(*down[0]))


def _remedy(name: str, message: str) -> str:
    """The certificate is made anew if the API server does not trust it; else its conditions tell more."""
    if "certificate" in message:
        cron_job = f"cronjob/{METRICS_CERTIFICATES_NAME}"
        return f"kubectl -n {SYSTEM_NAMESPACE} create job --from={cron_job} metrics-certificates-now"
    return f"kubectl describe apiservice {name}"
