"""Network policies: who reaches the ports of our pods, and whom our pods reach.

Pods of the host network have none, because policies do not apply to them.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from components.config import NetworkPolicies
from components.manifests import prometheus
from components.manifests.parts import APP_LABEL, OPS, Object, metadata
from gpushare.contract import BOARD_NAME

_DNS: Final = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
"""Of any address: resolvers are pods with other labels in each cluster, or a cache on the node."""


def objects(settings: NetworkPolicies, workloads: Iterable[Object]) -> list[Object]:
    """One policy per Deployment and DaemonSet of ``workloads``, and per Job or CronJob of a name."""
    owners = [each for each in workloads if _template(each)]
    scraped = sorted({port for each in owners if _is_on_host(each) for port in _ports(each, is_ops=True)})
    served = {each["metadata"]["name"]: each for each in owners if not _is_on_host(each)}
    return [_policy(settings, each, scraped) for each in served.values()]


def _template(owner: Object) -> Object:
    """The template of the pods of a workload; empty for other objects."""
    spec = owner.get("spec", {})
    found: Object = spec.get("jobTemplate", {}).get("spec", spec).get("template", {})
    return found


def _is_on_host(workload: Object) -> bool:
    return bool(_template(workload)["spec"].get("hostNetwork"))


def _ports(workload: Object, *, is_ops: bool) -> list[int]:
    ports = [port for each in _template(workload)["spec"]["containers"] for port in each.get("ports", [])]
    return [port["containerPort"] for port in ports if (port["name"] == OPS) is is_ops]


def _policy(settings: NetworkPolicies, workload: Object, scraped: Sequence[int]) -> Object:
    name, own = workload["metadata"]["name"], _template(workload)["metadata"]["labels"]
    # The API server forwards requests of `kubectl gpushare top`.
    hosts = [{"ipBlock": {"cidr": each}} for each in settings.control_plane]
    browsers = map(_namespace, settings.board_namespaces if name == BOARD_NAME else ())
    scrapers = [*map(_namespace, settings.monitoring_namespaces), _pods(APP_LABEL)]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name, workload["metadata"]["labels"]),
        "spec": {
            "podSelector": {"matchLabels": dict(own)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                *_rule(_ports(workload, is_ops=True), [*hosts, *scrapers]),
                # Replicas call each other.
                *_rule(_ports(workload, is_ops=False), [*hosts, _pods(own), *browsers]),
            ],
            "egress": _egress(workload, hosts, scraped if name == prometheus.NAME else []),
        },
    }


def _egress(workload: Object, hosts: Sequence[Object], scraped: Sequence[int]) -> list[Object]:
    """Whom the pods call: nobody without a token of the API server.

    ``scraped`` are ports of pods of the host network, whose addresses are those of all nodes.
    """
    if _template(workload)["spec"].get("automountServiceAccountToken") is False:
        return []
    return [
        {"ports": [dict(each) for each in _DNS]},
        {"to": [*hosts, _pods(APP_LABEL)]},
        *([{"ports": [{"port": port} for port in scraped]}] if scraped else []),
    ]


def _rule(ports: Sequence[int], sources: Sequence[Object]) -> list[Object]:
    """A rule without ports would allow all ports."""
    return [{"from": list(sources), "ports": [{"port": port} for port in ports]}] if ports else []


def _pods(marks: Object) -> Object:
    return {"podSelector": {"matchLabels": dict(marks)}}


def _namespace(name: str) -> Object:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
