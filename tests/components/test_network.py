"""Which hosts and pods reach the ports of our pods."""

from typing import Any

import pytest

from components.manifests import everything
from components.stack import load
from gpushare.errors import ConfigError
from tests.support.builders.stacks import DIGEST, raw_stack, sidecar

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
    assert policies() == {}


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


def test_a_policy_selects_the_pods_of_its_workload() -> None:
    objects = everything(
        load(raw_stack(pools=[{"evictRecover": True}], networkPolicies={"controlPlane": ["::/0"]}))
    )
    selectors = {
        each["metadata"]["name"]: each["spec"]["selector"] for each in objects if each["kind"] == "DaemonSet"
    }
    for each in objects:
        if each["kind"] == "NetworkPolicy":
            assert each["spec"]["podSelector"] == selectors[each["metadata"]["name"]]
            # Nothing may reach a pod without ports.
            assert each["spec"]["ingress"] == []


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
