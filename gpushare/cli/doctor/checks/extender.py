"""Checks of the extender: its pods, Lease, caches, transport and certificates. Pure."""

from collections.abc import Sequence
from typing import Final

from gpushare.cli.doctor.installation import Installation, Unread, if_read, required
from gpushare.cli.doctor.verdict import CheckVerdict, check, failed, ok, unread, warning
from gpushare.contract import EXTENDER_NAME, SYSTEM_NAMESPACE
from gpushare.model.options import MakeRoom
from gpushare.monitoring.catalogue import (
    EXTENDER_CERTIFICATE_EXPIRY,
    EXTENDER_DEGRADED,
    EXTENDER_LEADS,
    EXTENDER_SYNCED,
)
from gpushare.overview.system_pods import SystemPod
from gpushare.overview.words import counted, listed
from gpushare.runtime.times import seconds_of

_DAY_S: Final = 86_400
_EXPIRES_SOON_S: Final = 14 * _DAY_S
_LATE: Final = 2
"""A holder renews several times in the duration of its Lease; clocks may differ by as much again."""
_PODS: Final = f"kubectl get pods -n {SYSTEM_NAMESPACE} -l component={EXTENDER_NAME} -o wide"
_DEPLOYMENTS: Final = f"kubectl get deployments -n {SYSTEM_NAMESPACE} {EXTENDER_NAME}"
_LOGS: Final = f"kubectl logs -n {SYSTEM_NAMESPACE} -l component={EXTENDER_NAME}"
_LEASE: Final = f"kubectl get lease -n {SYSTEM_NAMESPACE} {EXTENDER_NAME} -o yaml"


@check("extender-pods", "Extender")
def pods(seen: Installation) -> CheckVerdict:
    """Whether all replicas are ready."""
    required(seen.system_pods)
    found = seen.pods_of(EXTENDER_NAME)
    ready = [pod for pod in found if pod.ready]
    wanted = _replicas(seen, len(found))
    if not found and not wanted:
        return failed(f"no pod of {EXTENDER_NAME}: deploy the extender, or scale it up", _DEPLOYMENTS)
    pending = _pending(found)
    if not ready:
        return failed(
            f"none of {counted(max(wanted, len(found)), 'replica')} is ready: no pod is placed{pending}",
            _PODS,
        )
    if len(ready) < wanted:
        return warning(f"{len(ready)} of {counted(wanted, 'replica')} are ready{pending}", _PODS)
    return ok(f"{counted(len(ready), 'replica')} ready")


def _pending(found: Sequence[SystemPod]) -> str:
    """Why the first replica without a node has none."""
    first = next((pod for pod in found if pod.unschedulable), None)
    return f"; {first.name} is Pending: {first.unschedulable}" if first else ""


def _replicas(seen: Installation, default: int) -> int:
    deployments = if_read(seen.deployments)
    return next((d.spec.replicas for d in deployments if d.metadata.name == EXTENDER_NAME), default)


def without_lease(seen: Installation) -> list[str]:
    """The replicas that bind although the API server forbids them the Lease: ``--allow-without-lease``."""
    leading = {pod.name for pod, each in seen.values(EXTENDER_NAME, EXTENDER_LEADS) if each.number == 1}
    return sorted(
        pod.name
        for pod, each in seen.values(EXTENDER_NAME, EXTENDER_DEGRADED)
        if each.labels.get("right") == "leases" and each.number and pod.name in leading
    )


@check("extender-lease", "Lease of the extender")
def lease(seen: Installation) -> CheckVerdict:
    """Whether a replica holds the Lease and renews it, or binds without one."""
    if found := without_lease(seen):
        text = f"{listed(found)} binds without a Lease (--allow-without-lease): run one replica only"
        return warning(text, _PODS)
    if isinstance(seen.lease, Unread):
        return _no_lease(seen, seen.lease)
    spec = seen.lease.spec
    if not spec.holder_identity:
        return failed("no replica holds the Lease, so no pod is bound", _LOGS)
    renewed = seconds_of(spec.renew_time or "")
    if renewed is None:
        return failed(f"the Lease has no time of renewal: {spec.renew_time!r}", _LEASE)
    age = seen.now_s - renewed
    if age > _LATE * (spec.lease_duration_seconds or 0):
        return failed(
            f"{spec.holder_identity} has not renewed the Lease for {age:.0f} s, so no pod is bound "
            "(or the clock of this machine is wrong)",
            _PODS,
        )
    return ok(f"held by {spec.holder_identity}")


def _no_lease(seen: Installation, found: Unread) -> CheckVerdict:
    """The verdict without a Lease; a replica whose metrics cannot be read may bind without one."""
    if not found.absent:
        return unread(found)
    problem = seen.unread_page(EXTENDER_NAME)
    if problem and problem.right:
        return unread(problem)
    return failed("there is no Lease: no extender has started, or it may not create one", _LOGS)


@check("extender-leader", "Leader of the extender")
def leader(seen: Installation) -> CheckVerdict:
    """Whether exactly one replica leads."""
    seen.require_page(EXTENDER_NAME)
    leaders = [pod.name for pod, sample in seen.values(EXTENDER_NAME, EXTENDER_LEADS) if sample.number == 1]
    if len(leaders) > 1:
        return failed(f"several replicas believe they lead: {listed(leaders)}", _LOGS)
    if leaders:
        return ok(leaders[0])
    problem = seen.unread_replica(EXTENDER_NAME)
    return unread(problem) if problem else failed("no replica leads, so no pod is bound", _LOGS)


@check("extender-caches", "Caches of the extender")
def caches(seen: Installation) -> CheckVerdict:
    """Whether all replicas have listed nodes and pods."""
    seen.require_page(EXTENDER_NAME)
    missing = [
        f"{sample.labels.get('resource', '')} in {pod.name}"
        for pod, sample in seen.values(EXTENDER_NAME, EXTENDER_SYNCED)
        if sample.number == 0
    ]
    return failed(f"not listed yet: {listed(missing)}", _LOGS) if missing else ok("all resources are listed")


@check("extender-degraded", "Degraded extender")
def degraded(seen: Installation) -> CheckVerdict:
    """Whether the extender lacks optional rights or protections."""
    seen.require_page(EXTENDER_NAME)
    missing = sorted(
        {
            sample.labels.get("right", "")
            for _, sample in seen.values(EXTENDER_NAME, EXTENDER_DEGRADED)
            if sample.number
        }
    )
    return (
        warning(f"degraded, because this is missing: {listed(missing)}", _LOGS)
        if missing
        else ok("nothing is missing")
    )


@check("tls", "TLS and certificates")
def tls(seen: Installation) -> CheckVerdict:
    """Whether the scheduler and the extender use TLS, and when certificates expire."""
    required(seen.system_pods)
    found = seen.pods_of(EXTENDER_NAME)
    plain = [pod.name for pod in found if _flag(pod, "tls-cert") is None and not _on_loopback(pod)]
    if plain:
        return warning(
            f"plain HTTP on the network: any pod may call filter and bind of {listed(plain)}",
            "set extender.tls of the stack, or exposure: sidecar",
        )
    expiries = [
        (sample.number, sample.labels.get("certificate", ""))
        for _, sample in seen.values(EXTENDER_NAME, EXTENDER_CERTIFICATE_EXPIRY)
    ]
    if not expiries:
        loopback = bool(found) and all(_flag(pod, "tls-cert") is None for pod in found)
        return (
            ok("plain HTTP on loopback")
            if loopback
            else unread(seen.unread_page(EXTENDER_NAME) or Unread("no certificate is reported"))
        )
    return _expiry(*min(expiries), seen.now_s)


def _expiry(expires_s: float, name: str, now_s: float) -> CheckVerdict:
    days = int((expires_s - now_s) / _DAY_S)
    command = f"kubectl get secrets -n {SYSTEM_NAMESPACE} | grep tls"
    if expires_s <= now_s:
        return failed(f"the certificate of {name} has expired", command)
    if expires_s - now_s < _EXPIRES_SOON_S:
        return warning(f"the certificate of {name} expires in {counted(days, 'day')}", command)
    return ok(f"mutual TLS; the first certificate ({name}) expires in {counted(days, 'day')}")


def evicts(seen: Installation) -> bool:
    """Whether an extender evicts pods to make room."""
    return any(_flag(pod, "make-room") == MakeRoom.EVICT for pod in seen.pods_of(EXTENDER_NAME))


def _flag(pod: SystemPod, name: str) -> str | None:
    return next((value for each in pod.spec.containers if (value := each.flag(name)) is not None), None)


def _on_loopback(pod: SystemPod) -> bool:
    return _flag(pod, "host") == "127.0.0.1"
