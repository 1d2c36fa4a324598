"""Configurations for every Kubernetes version since 1.16."""

import json
from typing import Any

import pytest

from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import (
    ExtenderConfig,
    Format,
    KubernetesVersion,
    SchedulerOptions,
    Tls,
    minimal,
    parse_version,
    render,
)
from tests.support.builders.ack_documents import S3_POLICY

FULL = ExtenderConfig()
TLS = Tls("/pki/ca.crt", "/pki/client.crt", "/pki/client.key", "gpushare-schd-extender")
SECURE = ExtenderConfig("https://10.0.0.1:12345/gpushare-scheduler", tls=TLS)


def v(minor: int) -> KubernetesVersion:
    return KubernetesVersion(1, minor)


def extender_of(document: dict[str, Any]) -> dict[str, Any]:
    [entry] = document["extenders"]
    assert isinstance(entry, dict)
    return entry


@pytest.mark.parametrize("minor", [16, 19, 22])
def test_the_minimal_policy_is_that_of_the_source_document(minor: int) -> None:
    assert render(minimal(), v(minor), form=Format.POLICY) == json.loads(S3_POLICY)


@pytest.mark.parametrize(
    ("minor", "api"),
    [
        (18, "v1alpha2"),
        (19, "v1beta1"),
        (21, "v1beta1"),
        (22, "v1beta2"),
        (23, "v1beta3"),
        (24, "v1beta3"),
        (25, "v1"),
        (28, "v1"),
        (29, "v1"),
        (36, "v1"),
        (99, "v1"),
    ],
)
def test_the_newest_version_that_the_scheduler_reads_is_written(minor: int, api: str) -> None:
    document = render(FULL, v(minor))
    assert document["apiVersion"] == f"kubescheduler.config.k8s.io/{api}"
    assert document["kind"] == "KubeSchedulerConfiguration"
    assert document["percentageOfNodesToScore"] == 100


@pytest.mark.parametrize("minor", [16, 17])
def test_a_scheduler_without_extenders_elsewhere_gets_a_policy(minor: int) -> None:
    assert render(FULL, v(minor))["kind"] == "Policy"
    with pytest.raises(ConfigError, match=rf"1\.{minor} has no KubeSchedulerConfiguration with extenders"):
        render(FULL, v(minor), form=Format.COMPONENT_CONFIG)


@pytest.mark.parametrize("minor", [23, 36])
def test_a_scheduler_that_reads_no_policy_gets_none(minor: int) -> None:
    with pytest.raises(ConfigError, match=rf"1\.{minor} reads no Policy"):
        render(minimal(), v(minor), form=Format.POLICY)


def test_all_verbs_and_both_resources_in_the_present_version() -> None:
    assert extender_of(render(FULL, v(36))) == {
        "urlPrefix": "http://127.0.0.1:32766/gpushare-scheduler",
        "filterVerb": "filter",
        "preemptVerb": "preempt",
        "prioritizeVerb": "prioritize",
        "weight": 5,
        "bindVerb": "bind",
        "enableHTTPS": False,
        "httpTimeout": "5s",
        "nodeCacheCapable": True,
        "managedResources": [
            {"name": "aliyun.com/gpu-mem", "ignoredByScheduler": False},
            {"name": "aliyun.com/gpu-core.percentage", "ignoredByScheduler": False},
        ],
        "ignorable": False,
    }


@pytest.mark.parametrize("minor", [17, 18])
def test_policy_and_v1alpha2_spell_https_otherwise_and_count_nanoseconds(minor: int) -> None:
    entry = extender_of(render(FULL, v(minor)))
    assert (entry["enableHttps"], entry["httpTimeout"]) == (False, 5_000_000_000)
    assert "enableHTTPS" not in entry


def test_https_follows_the_url_and_brings_the_files() -> None:
    entry = extender_of(render(SECURE, v(36)))
    assert entry["enableHTTPS"] is True
    assert entry["tlsConfig"] == {
        "caFile": "/pki/ca.crt",
        "certFile": "/pki/client.crt",
        "keyFile": "/pki/client.key",
        "serverName": "gpushare-schd-extender",
    }
    assert extender_of(render(SECURE, v(22), form=Format.POLICY))["enableHttps"] is True


def test_a_verb_that_is_not_called_is_not_written_nor_is_its_weight() -> None:
    entry = extender_of(render(ExtenderConfig(prioritize_verb=None, preempt_verb=None), v(36)))
    assert not {"prioritizeVerb", "preemptVerb", "weight"} & entry.keys()


def test_a_scheduler_of_its_own_has_a_name_and_a_lease_of_its_own() -> None:
    document = render(FULL, v(36), options=SchedulerOptions("gpushare", "/etc/kubernetes/scheduler.conf"))
    assert document["profiles"] == [{"schedulerName": "gpushare"}]
    assert document["leaderElection"] == {"leaderElect": True, "resourceName": "gpushare"}
    assert document["clientConnection"] == {"kubeconfig": "/etc/kubernetes/scheduler.conf"}


@pytest.mark.parametrize("name", [None, "default-scheduler"])
def test_the_clusters_own_scheduler_keeps_its_lease(name: str | None) -> None:
    assert render(FULL, v(36), options=SchedulerOptions(name))["leaderElection"] == {"leaderElect": True}


@pytest.mark.parametrize(
    "options",
    [SchedulerOptions("gpushare"), SchedulerOptions(kubeconfig="/kc"), SchedulerOptions(leader_elect=False)],
)
def test_settings_without_a_policy_field_are_refused(options: SchedulerOptions) -> None:
    with pytest.raises(ConfigError, match="use kube-scheduler's flags"):
        render(FULL, v(22), options=options, form=Format.POLICY)


@pytest.mark.parametrize(
    ("text", "minor"),
    [("1.36", 36), ("v1.16.6-aliyun.1", 16), ("1.27+", 27), ("v1.22.17", 22), (" 1.30.0-eks-1 ", 30)],
)
def test_versions_as_clusters_write_them(text: str, minor: int) -> None:
    assert parse_version(text) == v(minor)


@pytest.mark.parametrize("text", ["1.15", "v1.12.6", "0.30", "2.0"])
def test_kubernetes_before_116_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not supported"):
        parse_version(text)


@pytest.mark.parametrize("text", ["", "1", "one.two", "1.x", "-1.20", "1.1000", "１.３６"])
def test_an_invalid_version_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not like"):
        parse_version(text)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:32766", "ftp://host/x", "http://", "http://[::1", "http://h:port", "http://h x"]
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="URL"):
        ExtenderConfig(url)


def test_https_that_would_not_be_verified_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a CA file"):
        ExtenderConfig("https://host/x")
    with pytest.raises(ConfigError, match="needs a CA file"):
        Tls("")


def test_half_a_client_certificate_is_refused() -> None:
    with pytest.raises(ConfigError, match="both a certificate file and a key file"):
        Tls("/ca", cert_file="/crt")


def test_tls_files_for_plain_http_are_refused() -> None:
    with pytest.raises(ConfigError, match="is not https"):
        ExtenderConfig(tls=TLS)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"weight": 0}, "weight 0"),
        ({"http_timeout_s": 0}, "HTTP timeout 0"),
    ],
)
def test_a_configuration_that_kube_scheduler_would_refuse_is_refused(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        ExtenderConfig(**changes)


@pytest.mark.parametrize("percent", [0, 101, -1])
def test_a_percentage_is_one(percent: int) -> None:
    with pytest.raises(ConfigError, match="percentage of nodes"):
        SchedulerOptions(percentage_of_nodes=percent)
