"""Facts of a manifest for the role scheduler_extender, and the texts that it writes."""

import json

import pytest
import yaml

from ansible_collections.gpushare.nodes.plugins.plugin_utils import scheduler
from ansible_collections.gpushare.nodes.plugins.plugin_utils.gpushare.errors import ConfigError
from gpushare.model import yaml_text
from tests.builders import kubeadm

EXTENDER = {"url": "http://127.0.0.1:32766/gpushare-scheduler", "weight": 5, "http_timeout_s": 5, "tls": {}}
POLICY_FILE = "/etc/kubernetes/scheduler-policy-config.json"


@pytest.mark.parametrize("version", kubeadm.VERSIONS)
def test_removal_restores_every_byte_and_repetition_changes_none(version: str) -> None:
    before = kubeadm.scheduler(version)
    plan = scheduler.install(before, EXTENDER, policy_file=POLICY_FILE)
    assert scheduler.install(plan["manifest"], EXTENDER, policy_file=POLICY_FILE) == plan
    assert scheduler.remove(plan["manifest"], before)["manifest"] == before
    assert scheduler.remove(before)["manifest"] == before


def test_without_its_backup_a_manifest_loses_comments_but_no_content() -> None:
    before = kubeadm.scheduler("1.36")
    plan = scheduler.remove(scheduler.install(before, EXTENDER)["manifest"], "kind: Pod\n")
    assert yaml.safe_load(plan["manifest"]) == yaml.safe_load(before)
    assert plan["from_backup"] is False


def test_comments_of_a_manifest_that_needs_no_change_stay() -> None:
    edited = "# mine\n" + scheduler.install(kubeadm.scheduler("1.36"), EXTENDER)["manifest"]
    assert scheduler.install(edited, EXTENDER)["manifest"] == edited


def test_texts_that_look_like_dates_numbers_or_booleans_keep_their_meaning_for_the_kubelet() -> None:
    annotations = 'annotations: {day: 2024-01-01, time: 12:30, answer: "Y", size: "1e3", mode: 0o17}\n'
    before = kubeadm.scheduler("1.36").replace("metadata:\n", f"metadata:\n  {annotations}", 1)
    written = scheduler.install(before, EXTENDER)["manifest"]
    wanted = {"day": "2024-01-01", "time": "12:30", "answer": "Y", "size": "1e3", "mode": 15}
    assert yaml_text.parse(written)["metadata"]["annotations"].items() >= wanted.items()


def test_a_date_that_does_not_exist_is_a_text() -> None:
    before = kubeadm.scheduler("1.36").replace("metadata:\n", "metadata:\n  name: 2024-13-45\n", 1)
    assert scheduler.state_of(before)["installed"] is False


def test_the_state_has_version_existing_configuration_and_our_argument() -> None:
    state = scheduler.state_of(kubeadm.scheduler("1.29", "--config=/etc/own.yaml"))
    assert {key: state[key] for key in ("installed", "kubernetes_version", "base_file", "argument")} == {
        "installed": False,
        "kubernetes_version": "1.29",
        "base_file": "/etc/own.yaml",
        "argument": "",
    }
    plan = scheduler.install(kubeadm.scheduler("1.22"), EXTENDER, policy_file=POLICY_FILE)
    assert scheduler.state_of(plan["manifest"])["argument"] == f"--policy-config-file={POLICY_FILE}"
    assert json.loads(plan["config"])["kind"] == "Policy"


def test_a_tls_file_that_is_not_in_the_pod_is_refused() -> None:
    tls = {"ca_file": "/etc/ssl/ca.crt"}
    with pytest.raises(ConfigError, match=r"ca_file /etc/ssl/ca.crt is not in /etc/kubernetes/gpushare"):
        scheduler.install(kubeadm.scheduler("1.36"), {**EXTENDER, "tls": tls})


@pytest.mark.parametrize(("manifest", "problem"), [("[", "is not YAML"), ("- a", "is not a mapping")])
def test_an_invalid_manifest_is_refused(manifest: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"the static pod of kube-scheduler {problem}"):
        scheduler.state_of(manifest)


def test_a_second_scheduler_has_a_separate_name_and_lease() -> None:
    options = {"kubernetes_version": "1.36", "name": "gpushare-scheduler", "kubeconfig": ""}
    document = json.loads(scheduler.configuration(EXTENDER, options))
    assert document["profiles"] == [{"schedulerName": "gpushare-scheduler"}]
    assert document["leaderElection"]["resourceName"] == "gpushare-scheduler"
    assert "clientConnection" not in document
