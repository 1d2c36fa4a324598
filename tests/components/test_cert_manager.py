"""The documented certificates of cert-manager have the names that the services require."""

import re
from typing import Any

import pytest
import yaml

from components.manifests import everything
from components.stack import load
from gpushare.contract import (
    CLIENT_TLS_SECRET,
    EXTENDER_SERVER_NAME,
    METRICS_API_NAME,
    SCHEDULER_CLIENT_NAME,
    SCHEDULER_NAMING,
)
from tests.support.builders.stacks import DIGEST, ROOT, raw_stack

Object = dict[str, Any]
PAGE = (ROOT / "docs" / "how-to" / "certificates.md").read_text()
CERTIFICATES, STACK = re.findall(r"```yaml\n(.+?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def certificates() -> dict[str, Object]:
    documents = yaml.safe_load_all(CERTIFICATES)
    return {each["metadata"]["name"]: each["spec"] for each in documents if each["kind"] == "Certificate"}


@pytest.fixture(scope="module")
def objects() -> list[Object]:
    own = {key.removeprefix("gpushare:"): value for key, value in yaml.safe_load(STACK).items()}
    own["monitoring"]["metricsApi"] |= {"image": DIGEST}
    monitoring = {"exporter": {"image": DIGEST}, **own["monitoring"]}
    return everything(load(raw_stack(extender=own["extender"], monitoring=monitoring)))


def test_each_certificate_has_the_name_that_its_peers_check(certificates: dict[str, Object]) -> None:
    assert certificates["gpushare-extender"]["dnsNames"] == [EXTENDER_SERVER_NAME]
    assert {"server auth", "client auth"} < set(certificates["gpushare-extender"]["usages"])
    client = certificates["gpushare-scheduler-client"]
    assert (client["commonName"], client["secretName"]) == (SCHEDULER_CLIENT_NAME, CLIENT_TLS_SECRET)
    for name in (METRICS_API_NAME, SCHEDULER_NAMING):
        assert certificates[name]["dnsNames"] == [f"{name}.kube-system.svc"]


def test_the_documented_stack_uses_the_secrets_of_these_certificates(
    certificates: dict[str, Object], objects: list[Object]
) -> None:
    volumes = {
        volume["secret"]["secretName"]
        for each in objects
        if each["kind"] == "Deployment"
        for volume in each["spec"]["template"]["spec"]["volumes"]
    }
    assert volumes == {certificates[name]["secretName"] for name in ("gpushare-extender", METRICS_API_NAME)}


def test_the_documented_ca_is_injected_from_a_certificate_of_the_page(
    certificates: dict[str, Object], objects: list[Object]
) -> None:
    sources = {
        each["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
        for each in objects
        if each["kind"] == "APIService"
    }
    assert sources == {f"kube-system/{METRICS_API_NAME}"}
    assert METRICS_API_NAME in certificates
