"""All checks, in the order from the scheduler to the GPUs; ``examine`` runs them."""

from dataclasses import dataclass
from typing import Any, Final

from gpushare.cli.doctor import (
    agent_checks,
    extender_checks,
    node_checks,
    scheduler_checks,
    service_checks,
)
from gpushare.cli.doctor.installation import Installation
from gpushare.cli.doctor.verdict import Check, CheckVerdict, Status
from gpushare.contract import AGENT_NAME, EXPORTER_NAME, EXTENDER_NAME

CHECKS: Final[tuple[Check[Installation], ...]] = (
    Check("api-server", "Kubernetes version", service_checks.api_server),
    Check("scheduler-config", "Scheduler configuration", scheduler_checks.configuration),
    Check("extender-address", "Address of the extender", scheduler_checks.address),
    Check("extender-calls", "Calls from the scheduler", scheduler_checks.calls),
    Check("extender-pods", "Extender", extender_checks.pods),
    Check("extender-lease", "Lease of the extender", extender_checks.lease),
    Check("extender-leader", "Leader of the extender", extender_checks.leader),
    Check("extender-caches", "Caches of the extender", extender_checks.caches),
    Check("extender-degraded", "Degraded extender", extender_checks.degraded),
    Check("tls", "TLS and certificates", extender_checks.tls),
    Check("rights-extender", "Rights of the extender", service_checks.rights_of(EXTENDER_NAME)),
    Check("rights-agent", "Rights of the node agent", service_checks.rights_of(AGENT_NAME)),
    Check("rights-exporter", "Rights of the exporter", service_checks.rights_of(EXPORTER_NAME)),
    Check("admission", "Admission policies", service_checks.admission),
    Check("versions", "Versions", service_checks.versions),
    Check("sharing-nodes", "Nodes that share GPUs", node_checks.sharing_nodes),
    Check("agent-registered", "Units of the nodes", node_checks.registered),
    Check("agents", "Node agents", agent_checks.agents),
    Check("published-gpus", "Published GPUs", node_checks.published),
    Check("other-plugins", "Other device plugins", node_checks.other_plugins),
    Check("driver", "Driver", agent_checks.driver),
    Check("container-runtime", "Container runtime", agent_checks.container_runtime),
    Check("cgroups", "Cgroups", agent_checks.cgroups),
    Check("cpu-manager", "CPU manager", agent_checks.cpu_manager),
    Check("isolation", "Isolation", agent_checks.isolation),
    Check("gpu-models", "Models of GPUs", node_checks.models),
    Check("gpu-health", "Health of GPUs", node_checks.gpu_health),
    Check("cordoned-gpus", "Cordoned GPUs", node_checks.cordoned_gpus),
    Check("overcommitted-gpus", "Over-committed GPUs", node_checks.overcommitted_gpus),
    Check("unshared-pods", "Pods on nodes that do not share", node_checks.unshared_pods),
    Check("unplaced-pods", "Pods without a known GPU", node_checks.unplaced_pods),
    Check("exporters", "Exporters", agent_checks.exporters),
    Check("metrics-api", "Metrics API", service_checks.metrics_api),
    Check("pending-pods", "Pending pods", scheduler_checks.pending),
)


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """A check and its verdict."""

    check: Check[Any]
    verdict: CheckVerdict


def examine(seen: Installation) -> list[CheckFinding]:
    """The verdicts of all checks."""
    return [CheckFinding(check, check.run(seen)) for check in CHECKS]


def is_healthy(findings: list[CheckFinding]) -> bool:
    """Whether no check has failed; warnings and unknown results do not count."""
    return all(each.verdict.status is not Status.FAILED for each in findings)
