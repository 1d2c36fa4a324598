"""Network policies: who reaches the ports of our pods.

Pods of the host network have none, because policies do not apply to them.
"""

from collections.abc import Iterable, Sequence

from components.config import NetworkPolicies
from components.manifests.parts import APP_LABEL, OPS, Object, metadata
from gpushare.contract import BOARD_NAME


def objects(settings: NetworkPolicies, workloads: Iterable[Object]) -> list[Object]:
    """One policy per Deployment and DaemonSet of ``workloads``."""
    served = [each for each in workloads if each["kind"] in ("Deployment", "DaemonSet")]
    return [_policy(settings, each) for each in served if not _pod(each).get("hostNetwork")]


def _pod(workload: Object) -> Object:
    spec: Object = workload["spec"]["template"]["spec"]
    return spec


def _policy(settings: NetworkPolicies, workload: Object) -> Object:
    own = workload["spec"]["selector"]["matchLabels"]
    ports = [port for container in _pod(workload)["containers"] for port in container.get("ports", [])]
    # The API server forwards requests of `kubectl gpushare top`.
    hosts = [{"ipBlock": {"cidr": each}} for each in settings.control_plane]
    is_board = workload["metadata"]["name"] == BOARD_NAME
    browsers = map(_namespace, settings.board_namespaces if is_board else ())
    scrapers = [*map(_namespace, settings.monitoring_namespaces), _pods(APP_LABEL)]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(workload["metadata"]["name"], workload["metadata"]["labels"]),
        "spec": {
            "podSelector": {"matchLabels": own},
            "policyTypes": ["Ingress"],
            "ingress": [
                *_rule([port for port in ports if port["name"] == OPS], [*hosts, *scrapers]),
                # Replicas call each other.
                *_rule([port for port in ports if port["name"] != OPS], [*hosts, _pods(own), *browsers]),
            ],
        },
    }


def _rule(ports: Sequence[Object], sources: Sequence[Object]) -> list[Object]:
    """A rule without ports would allow all ports."""
    if not ports:
        return []
    return [{"from": list(sources), "ports": [{"port": port["containerPort"]} for port in ports]}]


def _pods(marks: Object) -> Object:
    return {"podSelector": {"matchLabels": dict(marks)}}


def _namespace(name: str) -> Object:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
