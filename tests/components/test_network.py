"""Which hosts and pods reach the ports of our pods, and which ones our pods reach."""

from typing import Any

import pytest

from components.manifests import everything
from components.stack import from_file, load
from gpushare.errors import ConfigError
from tests.support.builders.stacks import DIGEST, STACKS, raw_stack, sidecar

Object = dict[str, Any]
API_SERVERS = {"ipBlock": {"cidr": "10.0.0.0/28"}}
PROMETHEUS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
OURS = {"podSelector": {"matchLabels": {"app": "gpushare"}}}


def policies(**changes: Any) -> dict[str, Object]:
    settings = {"controlPlane": ["10.0.0.0/28"], "monitoringNamespaces": ["monitoring"]}
    return policies_of(networkPolicies=settings, **changes)


def policies_of(**changes: Any) -> dict[str, Object]:
    objects = everything(load(raw_stack(**changes)))
    return {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "NetworkPolicy"}


def sources(policy: Object) -> dict[int, list[Object]]:
    """By port."""
    return {port["port"]: rule["from"] for rule in policy["ingress"] for port in rule["ports"]}


def itself(name: str) -> Object:
    return {"podSelector": {"matchLabels": {"app": "gpushare", "component": name}}}


def test_there_are_no_policies_by_default() -> None:
    assert "NetworkPolicy" not in {each["kind"] for each in everything(load(raw_stack()))}


def test_pods_of_the_host_network_have_no_policy() -> None:
    assert policies(extender={"tls": "none"}) == {}
    assert policies().keys() == {"gpushare-certificates"}


def test_metrics_are_for_prometheus_our_services_and_the_api_server() -> None:
    exporter = policies(monitoring={"exporter": {"image": DIGEST}})["gpushare-exporter"]
    assert sources(exporter) == {12348: [API_SERVERS, PROMETHEUS, OURS]}


def test_the_extender_is_called_by_the_scheduler_and_its_replicas() -> None:
    extender = policies(extender={"exposure": "cluster-ip", "replicas": 3})["gpushare-schd-extender"]
    assert sources(extender)[12345] == [API_SERVERS, itself("gpushare-schd-extender")]
    peers = policies(extender=sidecar(replicas=3, certificatesImage=DIGEST))["gpushare-schd-extender"]
    assert sources(peers)[12352] == [API_SERVERS, itself("gpushare-schd-extender")]


def test_the_board_is_for_the_api_server_and_the_namespaces_of_its_ingress() -> None:
    settings = {"controlPlane": ["10.0.0.0/28"], "boardNamespaces": ["ingress"]}
    board = {"image": DIGEST, "tlsSecret": "tls"}
    parts = {"exporter": {"image": DIGEST}, "board": board}
    found = policies_of(networkPolicies=settings, monitoring=parts)
    ingress = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}
    assert sources(found["gpushare-board"])[8443] == [API_SERVERS, itself("gpushare-board"), ingress]
    assert sources(found["gpushare-board"])[12355] == [API_SERVERS, OURS]
    assert ingress not in sources(found["gpushare-exporter"])[12348]


DNS = {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}
CALLS = [DNS, {"to": [API_SERVERS, OURS]}]
"""Of pods that call the API server, and perhaps other services of ours."""


def stack_with_policies(name: str) -> list[Object]:
    settings = {"controlPlane": ["10.0.0.0/28"], "monitoringNamespaces": ["monitoring"]}
    return everything(load({**from_file(STACKS[name]), "networkPolicies": settings}))


def template(owner: Object) -> Object:
    """The template of the pods of a workload; empty for other objects."""
    spec = owner.get("spec", {})
    found: Object = spec.get("jobTemplate", {}).get("spec", spec).get("template", {})
    return found


def policy_of(objects: list[Object], pods: Object) -> Object:
    """The policy that selects these pods: there is exactly one."""
    labels = pods["metadata"]["labels"].items()
    found = [each["spec"] for each in objects if each["kind"] == "NetworkPolicy"]
    (policy,) = [each for each in found if each["podSelector"]["matchLabels"].items() <= labels]
    return dict(policy)


@pytest.mark.parametrize("name", STACKS)
def test_pods_that_call_the_api_server_may_and_all_others_call_nobody(name: str) -> None:
    objects = stack_with_policies(name)
    for pods in filter(None, map(template, objects)):
        if pods["spec"].get("hostNetwork"):
            continue
        policy = policy_of(objects, pods)
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        has_token = pods["spec"].get("automountServiceAccountToken", True)
        assert policy["egress"][:2] == (CALLS if has_token else [])


@pytest.mark.parametrize("name", STACKS)
def test_a_pod_without_a_token_has_no_account_with_rights(name: str) -> None:
    """Otherwise it would be cut off from the API server that it calls."""
    objects = everything(load(from_file(STACKS[name])))
    bound = {
        subject["name"]
        for each in objects
        if each["kind"] in ("RoleBinding", "ClusterRoleBinding")
        for subject in each["subjects"]
        if subject["kind"] == "ServiceAccount"
    }
    for pods in filter(None, map(template, objects)):
        has_token = pods["spec"].get("automountServiceAccountToken", True)
        assert has_token == (pods["spec"].get("serviceAccountName") in bound)


def test_prometheus_also_reads_pods_of_the_host_network_whose_addresses_are_those_of_nodes() -> None:
    parts = {"exporter": {"image": DIGEST}, "prometheus": {"image": DIGEST}}
    found = policies(monitoring=parts)
    assert found["gpushare-prometheus"]["egress"] == [*CALLS, {"ports": [{"port": 12346}, {"port": 12347}]}]
    assert found["gpushare-exporter"]["egress"] == CALLS


def test_every_pod_that_prometheus_reads_lets_it_in() -> None:
    objects = stack_with_policies("everything")
    for pods in filter(None, map(template, objects)):
        ports = [port for each in pods["spec"]["containers"] for port in each.get("ports", ())]
        for port in ports:
            if port["name"] == "ops" and not pods["spec"].get("hostNetwork"):
                assert OURS in sources(policy_of(objects, pods))[port["containerPort"]]


def test_the_pods_of_a_job_and_a_cron_job_share_one_policy() -> None:
    assert policies()["gpushare-certificates"] == {
        "podSelector": itself("gpushare-certificates")["podSelector"],
        "policyTypes": ["Ingress", "Egress"],
        # Nothing may reach a pod without ports.
        "ingress": [],
        "egress": CALLS,
    }


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "networkPolicies.controlPlane: missing"),
        ({"controlPlane": []}, "networkPolicies.controlPlane: empty; list addresses, like 10.0.0.0/28"),
        ({"controlPlane": ["10.0.0.7/28"]}, "networkPolicies.controlPlane[0]: '10.0.0.7/28' is not a range"),
        ({"controlPlane": ["10.0.0.7"]}, "networkPolicies.controlPlane[0]: '10.0.0.7' is not a range"),
        (
            {"controlPlane": ["10.0.0.0/255.255.0.0"]},
            "networkPolicies.controlPlane[0]: '10.0.0.0/255.255.0.0' is not a range",
        ),
        (
            {"controlPlane": ["10.0.0.0/28"], "monitoringNamespaces": ["A"]},
            "networkPolicies.monitoringNamespaces[0]: 'A' is not a name",
        ),
        (
            {"controlPlane": ["10.0.0.0/28"], "boardNamespaces": ["A"]},
            "networkPolicies.boardNamespaces[0]: 'A' is not a name",
        ),
    ],
)
def test_invalid_addresses_and_namespaces_are_errors(settings: Object, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(raw_stack(networkPolicies=settings))
    assert str(error.value).startswith(text)
