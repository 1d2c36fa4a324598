import copy
import json
from typing import Any

import pytest
import yaml

from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import ExtenderConfig, Format, parse_version, render
from gpushare.kubescheduler.static_pod import (
    Base,
    arguments_of,
    base_of,
    config_file_of,
    installed,
    is_installed,
    removed,
    version_of,
)
from tests.support.builders import kubeadm

FOLDER = "/etc/kubernetes/gpushare"
POLICY_FILE = "/etc/kubernetes/scheduler-policy-config.json"
"""Path of the Policy in the ACK documentation."""


def pod(version: str = "1.36", *flags: str) -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load(kubeadm.scheduler(version, *flags))
    return made


def install(manifest: dict[str, Any], base: dict[str, Any] | None = None, **extender: Any) -> Any:
    version = version_of(manifest)
    assert version is not None
    return installed(manifest, ExtenderConfig(**extender), version, base)


def words(manifest: dict[str, Any]) -> list[str]:
    command: list[str] = manifest["spec"]["containers"][0]["command"]
    return command


@pytest.mark.parametrize("version", kubeadm.VERSIONS)
def test_an_installation_can_be_removed_and_a_second_one_changes_nothing(version: str) -> None:
    before = pod(version)
    edit = install(before)
    assert before == pod(version)
    assert install(edit.manifest) == edit
    assert removed(edit.manifest) == before
    assert (is_installed(before), is_installed(edit.manifest)) == (False, True)


@pytest.mark.parametrize(
    ("version", "flag", "kind"),
    [
        ("1.22", "--policy-config-file", "Policy"),
        ("1.23", "--config", "KubeSchedulerConfiguration"),
        ("1.36", "--config", "KubeSchedulerConfiguration"),
    ],
)
def test_each_version_gets_the_flag_and_the_document_that_it_reads(
    version: str, flag: str, kind: str
) -> None:
    edit = install(pod(version))
    assert words(edit.manifest) == [*words(pod(version)), f"{flag}={edit.config_file}"]
    assert edit.config_file.startswith(f"{FOLDER}/")
    assert json.loads(edit.config_text)["kind"] == kind


def test_kubeconfig_and_leader_election_go_into_the_file_that_outranks_their_flags() -> None:
    document = json.loads(install(pod("1.36")).config_text)
    assert document["clientConnection"] == {"kubeconfig": "/etc/kubernetes/scheduler.conf"}
    assert document["leaderElection"] == {"leaderElect": True}
    alone = pod("1.36")
    words(alone)[words(alone).index("--leader-elect=true")] = "--leader-elect=false"
    assert json.loads(install(alone).config_text)["leaderElection"] == {"leaderElect": False}


def test_all_else_of_the_pod_stays() -> None:
    before = pod()
    before["spec"]["containers"][0]["futureField"] = {"a": [1]}
    before["spec"]["containers"].append({"name": "beside", "image": "x"})
    after = copy.deepcopy(install(before).manifest)
    container = after["spec"]["containers"][0]
    mount, volume = container["volumeMounts"].pop(), after["spec"]["volumes"].pop()
    assert (mount["mountPath"], volume["hostPath"]["path"], mount["name"]) == (FOLDER, FOLDER, volume["name"])
    container["command"].pop()
    del after["metadata"]["annotations"]
    assert after == before


def test_another_configuration_changes_the_pod_so_that_the_kubelet_restarts_it() -> None:
    one, other = install(pod(), weight=5).manifest, install(pod(), weight=6).manifest
    assert one["metadata"]["annotations"] != other["metadata"]["annotations"]
    assert words(one) == words(other)


@pytest.mark.parametrize(
    "flag",
    [
        ["--config=/etc/own.yaml"],
        ["--config", "/etc/own.yaml"],
        ["--config=/etc/outranked.yaml", "--config=/etc/own.yaml"],
    ],
    ids=["one-word", "two-words", "twice"],
)
def test_a_configuration_of_the_clusters_own_gets_the_extender_added(flag: list[str]) -> None:
    other = {"urlPrefix": "http://127.0.0.1:1/other", "filterVerb": "filter"}
    own = {**render(ExtenderConfig(), parse_version("1.29")), "extenders": [other], "podMaxBackoffSeconds": 3}
    before = pod("1.29", *flag, "--v=2")
    assert base_of(before) == Base("--config", "/etc/own.yaml")
    edit = install(before, own)
    document = json.loads(edit.config_text)
    assert document["podMaxBackoffSeconds"] == 3
    assert [each["urlPrefix"] for each in document["extenders"]] == [
        "http://127.0.0.1:1/other",
        "http://127.0.0.1:32766/gpushare-scheduler",
    ]
    assert words(edit.manifest)[-2:] == [f"--config={edit.config_file}", "--v=2"]
    assert base_of(edit.manifest) == Base("--config", "/etc/own.yaml")
    assert install(edit.manifest, own) == edit
    assert removed(edit.manifest) == before


def test_a_policy_of_the_clusters_own_gets_the_extender_added() -> None:
    own = {"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "PodFitsHost"}]}
    edit = install(pod("1.22", "--policy-config-file=/etc/own.json"), own)
    document = json.loads(edit.config_text)
    assert document["predicates"] == own["predicates"]
    assert document["extenders"][0]["httpTimeout"] == 5_000_000_000


def test_a_policy_can_have_a_separate_file_outside_of_our_directory() -> None:
    before, extender = pod("1.22"), ExtenderConfig()
    edit = installed(before, extender, parse_version("1.22"), policy_file=POLICY_FILE)
    assert edit.config_file == POLICY_FILE
    assert words(edit.manifest)[-1] == f"--policy-config-file={POLICY_FILE}"
    container = edit.manifest["spec"]["containers"][0]
    assert [each["mountPath"] for each in container["volumeMounts"][1:]] == [FOLDER, POLICY_FILE]
    assert edit.manifest["spec"]["volumes"][2]["hostPath"] == {"path": POLICY_FILE, "type": "File"}
    assert removed(edit.manifest) == before
    assert installed(edit.manifest, extender, parse_version("1.22"), policy_file=POLICY_FILE) == edit
    assert install(edit.manifest) == install(before)


def test_the_file_for_a_policy_is_not_that_of_the_cluster_and_not_for_newer_schedulers() -> None:
    own = {"kind": "Policy", "apiVersion": "v1"}
    before = pod("1.22", f"--policy-config-file={POLICY_FILE}")
    edit = installed(before, ExtenderConfig(), parse_version("1.22"), own, policy_file=POLICY_FILE)
    assert edit.config_file == f"{FOLDER}/scheduler-policy-config.json"
    assert removed(edit.manifest) == before
    later = installed(pod(), ExtenderConfig(), parse_version("1.36"), policy_file=POLICY_FILE)
    assert later == install(pod())


def test_a_named_but_missing_configuration_is_an_error() -> None:
    with pytest.raises(
        ConfigError, match=r"--config=/etc/own\.yaml, but the content of that file is missing"
    ):
        install(pod("1.36", "--config=/etc/own.yaml"))


def test_an_edit_by_hand_after_the_installation_stays_at_removal() -> None:
    edited = copy.deepcopy(install(pod()).manifest)
    words(edited).append("--v=4")
    edited["metadata"]["annotations"]["mine"] = "x"
    again = removed(edited)
    assert words(again) == [*words(pod()), "--v=4"]
    assert again["metadata"]["annotations"] == {"mine": "x"}


def test_flags_among_the_arguments_are_found_there() -> None:
    before = pod()
    container = before["spec"]["containers"][0]
    container["args"], container["command"] = container["command"][1:], container["command"][:1]
    after = install(before).manifest["spec"]["containers"][0]
    assert after["command"] == ["kube-scheduler"]
    assert after["args"][-1].startswith("--config=")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda pod: pod.update(kind="Deployment"), "Deployment has no container kube-scheduler"),
        (lambda pod: pod.pop("spec"), "Pod has no container kube-scheduler"),
        (
            lambda pod: words(pod).append("--policy-configmap=p"),
            "--policy-configmap, which a file cannot extend",
        ),
        (
            lambda pod: pod["spec"]["containers"][0].update(
                command=["sh", "-c", "exec kube-scheduler --v=2"]
            ),
            "starts kube-scheduler in a shell",
        ),
        (
            lambda pod: pod["spec"]["volumes"].append({"name": "gpushare-scheduler"}),
            "volume gpushare-scheduler exists without annotation",
        ),
        (
            lambda pod: pod["metadata"].update(
                annotations={"gpushare.io/scheduler-config": "x", "gpushare.io/replaced-flag": "{"}
            ),
            "annotation gpushare.io/replaced-flag is '{', not a list of words",
        ),
    ],
)
def test_a_pod_that_cannot_be_edited_is_an_error(change: Any, text: str) -> None:
    manifest = pod("1.22")
    change(manifest)
    with pytest.raises(ConfigError, match=text):
        installed(manifest, ExtenderConfig(), parse_version("1.22"))


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("registry.k8s.io/kube-scheduler:v1.36.4", "1.36"),
        ("10.0.0.1:5000/kube-scheduler:v1.16.6-aliyun.1", "1.16"),
        ("a/kube-scheduler:v1.29.1@sha256:0123", "1.29"),
        ("10.0.0.1:5000/kube-scheduler", None),
        ("a/kube-scheduler:stable", None),
    ],
)
def test_the_version_is_read_off_the_images_tag(image: str, version: str | None) -> None:
    manifest = pod()
    manifest["spec"]["containers"][0]["image"] = image
    found = version_of(manifest)
    assert (str(found) if found else None) == version


def test_a_policy_is_written_as_the_one_renderer_writes_it() -> None:
    expected = render(ExtenderConfig(), parse_version("1.22"), form=Format.POLICY)
    assert json.loads(install(pod("1.22")).config_text) == expected


@pytest.mark.parametrize("version", kubeadm.VERSIONS)
def test_the_configuration_of_a_pod_is_the_file_that_was_installed(version: str) -> None:
    edit = install(pod(version))
    assert config_file_of(edit.manifest) == edit.config_file
    assert config_file_of(pod(version, "--config=/etc/own.yaml")) == ""


def test_a_policy_beside_our_directory_is_our_configuration_too() -> None:
    edit = installed(pod("1.22"), ExtenderConfig(), parse_version("1.22"), policy_file=POLICY_FILE)
    assert config_file_of(edit.manifest) == POLICY_FILE


def test_the_arguments_of_a_process_are_all_words_after_the_program() -> None:
    made = pod("1.36")
    assert ["kube-scheduler", *arguments_of(made)] == words(made)
    container = made["spec"]["containers"][0]
    container["command"][0] = "/usr/local/bin/kube-scheduler"
    assert arguments_of(made) == words(pod("1.36"))[1:]
    container["args"] = container.pop("command")[1:]
    assert arguments_of(made) == words(pod("1.36"))[1:]
    container["args"].append("--v=$(LEVEL)")
    assert arguments_of(made) == []
