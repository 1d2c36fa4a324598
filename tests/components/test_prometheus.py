"""The Prometheus of a stack: its objects, its files, its settings."""

from typing import Any

import pytest
import yaml

from components.manifests import RETAINED, everything
from components.manifests.network import objects as policies_of
from components.stack import load
from gpushare.errors import ConfigError
from policy.rules import RULES
from tests.support.builders.stacks import DIGEST, ROOT, raw_stack

Object = dict[str, Any]
NAME = "gpushare-prometheus"
FILES = ROOT / "components" / "monitoring"


def raw(monitoring: Object | None = None, **prometheus: Any) -> Object:
    parts = {"exporter": {"image": DIGEST}, "prometheus": {"image": DIGEST, **prometheus}}
    return raw_stack(monitoring={**parts, **(monitoring or {})})


def made(monitoring: Object | None = None, **prometheus: Any) -> dict[str, Object]:
    """The objects of Prometheus by kind."""
    objects = everything(load(raw(monitoring, **prometheus)))
    return {each["kind"]: each for each in objects if each["metadata"]["name"] == NAME}


def pod(objects: dict[str, Object]) -> Object:
    found: Object = objects["Deployment"]["spec"]["template"]["spec"]
    return found


def test_there_is_no_prometheus_by_default() -> None:
    objects = everything(load(raw_stack(monitoring={"exporter": {"image": DIGEST}})))
    assert [each["kind"] for each in objects if each["metadata"]["name"] == NAME] == ["ConfigMap"]


def test_its_configuration_has_the_scrapes_and_rules_of_the_files() -> None:
    data = made()["ConfigMap"]["data"]
    configuration = yaml.safe_load(data["prometheus.yml"])
    scrapes = yaml.safe_load((FILES / "scrape.yaml").read_text())
    assert configuration["scrape_configs"] == scrapes["scrape_configs"]
    assert set(configuration["rule_files"]) == data.keys() - {"prometheus.yml", "scrape.yaml"}


def test_it_reads_the_mounted_configuration_and_writes_to_the_volume() -> None:
    (container,) = pod(made())["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert f"--config.file={mounts['files']}/prometheus.yml" in container["args"]
    assert f"--storage.tsdb.path={mounts['data']}" in container["args"]


def test_its_pod_is_replaced_when_a_file_changes() -> None:
    def template(**monitoring: Any) -> Object:
        found: Object = made(monitoring)["Deployment"]["spec"]["template"]["metadata"]
        return found

    assert template() == template()
    assert template() != template(runbooks="https://example.com/runbooks")


def test_it_may_only_list_and_watch_the_pods_of_its_namespace() -> None:
    objects = made()
    assert objects["Role"]["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}
    ]
    assert not {"ClusterRole", "ClusterRoleBinding"} & objects.keys()


def test_storage_is_a_retained_claim_or_ends_with_the_pod() -> None:
    ephemeral, lasting = made(), made(storage="20Gi", storageClass="fast")
    assert "PersistentVolumeClaim" not in ephemeral
    assert {"name": "data", "emptyDir": {}} in pod(ephemeral)["volumes"]
    assert lasting["PersistentVolumeClaim"]["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "20Gi"}},
        "storageClassName": "fast",
    }
    assert {"name": "data", "persistentVolumeClaim": {"claimName": NAME}} in pod(lasting)["volumes"]
    assert lasting["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    assert "PersistentVolumeClaim" in RETAINED


def test_it_follows_the_policies_and_the_restricted_pod_security_standard() -> None:
    objects = made(storage="20Gi")
    assert {text for each in objects.values() for rule in RULES.values() for text in rule(each)} == set()
    security = pod(objects)["securityContext"]
    assert (security["runAsNonRoot"], security["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    (container,) = pod(objects)["containers"]
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {kind for volume in pod(objects)["volumes"] for kind in volume} == {
        "name",
        "configMap",
        "persistentVolumeClaim",
    }


def test_our_services_and_the_named_namespaces_may_query_it() -> None:
    top = {"networkPolicies": {"controlPlane": ["192.0.2.0/28"], "monitoringNamespaces": ["grafana"]}}
    settings = load(raw() | top)
    assert settings.network_policies
    (policy,) = policies_of(settings.network_policies, [made()["Deployment"]])
    (ingress,) = policy["spec"]["ingress"]
    assert ingress["ports"] == [{"port": 9090}]
    assert {"podSelector": {"matchLabels": {"app": "gpushare"}}} in ingress["from"]


@pytest.mark.parametrize(
    ("stack", "text"),
    [
        (raw(image=""), "monitoring.prometheus.image: missing; set it here, or 'prometheus' in images"),
        (raw(image="prom/prometheus:v3"), "monitoring.prometheus.image: 'prom/prometheus:v3' has no digest"),
        (raw(storage="20G"), "monitoring.prometheus.storage: '20G' is not an amount; use Mi, Gi or Ti"),
        (raw(storageClass="fast"), "monitoring.prometheus.storageClass: only with monitoring.prometheus.sto"),
        (
            raw(storage="1Gi", storageClass="A"),
            "monitoring.prometheus.storageClass: 'A' is not an object name",
        ),
        (raw(retention="15"), "monitoring.prometheus.retention: '15' is not a duration; use h, d, w or y"),
        (raw(retention="300y"), "monitoring.prometheus.retention: '300y' is not a duration; use h, d"),
        (raw(memory="1"), "monitoring.prometheus.memory: '1' is not an amount"),
        (raw({"operator": True}), "monitoring.prometheus: monitoring.operator is also set; keep one"),
    ],
)
def test_an_invalid_setting_is_an_error(stack: Object, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(stack)
    assert str(error.value).startswith(text)
