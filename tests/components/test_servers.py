"""Servers that the API server calls: their certificates, and how many pods a drain may stop."""

from typing import Any

import pytest

from components.manifests import everything
from components.stack import load
from gpushare.errors import ConfigError
from tests.support.builders.stacks import DIGEST, raw_stack, sidecar

Object = dict[str, Any]
PEM = "-----BEGIN CERTIFICATE-----"
CERTIFICATE = "kube-system/gpushare"


def with_metrics_api(**changes: Any) -> Object:
    api = {"image": DIGEST, "tlsSecret": "tls", **changes}
    return raw_stack(monitoring={"exporter": {"image": DIGEST}, "metricsApi": api})


def with_webhook(**changes: Any) -> Object:
    scheduler = {"image": DIGEST, "webhook": {"tlsSecret": "tls", **changes}}
    return raw_stack(extender=sidecar(scheduler=scheduler), kubernetesVersion="1.35")


SERVERS = {"APIService": with_metrics_api, "MutatingWebhookConfiguration": with_webhook}


@pytest.mark.parametrize("kind", SERVERS)
def test_cert_manager_can_write_the_ca_certificates(kind: str) -> None:
    objects = everything(load(SERVERS[kind](injectCaFrom=CERTIFICATE)))
    called = [each for each in objects if each["kind"] == kind]
    assert called
    for each in called:
        assert each["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": CERTIFICATE}
        # A field that the stack sets would be reverted by each `pulumi up`.
        assert "caBundle" not in str(each)


@pytest.mark.parametrize("kind", SERVERS)
def test_ca_certificates_of_the_configuration_are_in_the_object(kind: str) -> None:
    objects = everything(load(SERVERS[kind](caBundle=PEM)))
    for each in objects:
        if each["kind"] == kind:
            assert "caBundle" in str(each)
            assert "annotations" not in each["metadata"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "caBundle: '' is not a certificate; set it to the text of ca.crt, or injectCaFrom"),
        ({"injectCaFrom": CERTIFICATE, "caBundle": PEM}, "injectCaFrom: "),
        ({"injectCaFrom": "gpushare"}, "injectCaFrom: 'gpushare' is not an object; use namespace/name"),
    ],
)
@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_needs_exactly_one_source_of_ca_certificates(kind: str, changes: Object, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(SERVERS[kind](**changes))
    assert f".{text}" in str(error.value)


@pytest.mark.parametrize(("replicas", "budgets"), [(1, []), (2, ["gpushare-metrics-api"])])
def test_a_drain_stops_one_of_several_pods_at_a_time(replicas: int, budgets: list[str]) -> None:
    objects = everything(load(with_metrics_api(caBundle=PEM, replicas=replicas)))
    found = [each for each in objects if each["kind"] == "PodDisruptionBudget"]
    assert [each["metadata"]["name"] for each in found] == budgets
    for each in found:
        labels = {"app": "gpushare", "component": each["metadata"]["name"]}
        assert each["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}


def test_the_webhook_has_a_disruption_budget_by_default() -> None:
    objects = everything(load(with_webhook(caBundle=PEM)))
    budgets = [each["metadata"]["name"] for each in objects if each["kind"] == "PodDisruptionBudget"]
    assert budgets == ["gpushare-scheduler-name"]
