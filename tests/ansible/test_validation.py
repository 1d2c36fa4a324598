"""The checks of the role validate, with one changed fact at a time."""

import json
from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.checks import Check, Level
from ansible_collections.gpushare.nodes.plugins.plugin_utils.validation import (
    Requirements,
    checks,
    plugin_daemon_sets,
)
from gpushare.contract import ANN_CARDS, LABEL_OPERATOR_PLUGIN, RESOURCE_MEM, RESOURCE_WHOLE_GPU
from tests.ansible.reports import CDI, CDI_SPEC, REQUIRED, V100, report

ANSWERS = {"status": 200}


def published(cards: int) -> str:
    return json.dumps([{"index": index, "units": 31} for index in range(cards)])


def node(
    *,
    ready: str = "True",
    labels: dict[str, str] | None = None,
    cards: str | None = published(2),
    spec: dict[str, Any] | None = None,
    **allocatable: str,
) -> dict[str, Any]:
    amounts = (
        {RESOURCE_MEM: "62"} if not allocatable else {NAMES[key]: text for key, text in allocatable.items()}
    )
    return {
        "metadata": {
            "labels": {"gpushare": "true"} if labels is None else labels,
            "annotations": {} if cards is None else {ANN_CARDS: cards},
        },
        "spec": spec or {},
        "status": {"conditions": [{"type": "Ready", "status": ready}], "allocatable": amounts},
    }


NAMES = {"mem": RESOURCE_MEM, "whole": RESOURCE_WHOLE_GPU}


def check(
    check_name: str,
    required: dict[str, Any] | None = None,
    of_node: dict[str, Any] | None = None,
    answer: dict[str, Any] | None = None,
    /,
    **changes: Any,
) -> Check:
    of_node = node() if of_node is None else of_node
    made = checks(report(**changes), Requirements(**REQUIRED | (required or {})), of_node, answer or {})
    return next(one for one in made if one.name == check_name)


def failure(name: str, *parts: dict[str, Any] | None, **changes: Any) -> str:
    """The problem of a check that must fail."""
    found = check(name, *parts, **changes)
    assert found.level is Level.FAIL
    return found.problem


def test_a_correct_node_passes_every_check() -> None:
    made = checks(report(), Requirements(**REQUIRED), node(), ANSWERS)
    assert {one.level for one in made} == {Level.OK}
    names = [one.name for one in made]
    assert names == ["driver", "cards", "runtime", "toolkit", "services", "node", "offer", "extender"]


def test_a_plain_node_has_checks_of_services_and_node_only() -> None:
    made = checks(report(gpus=[]), Requirements(**REQUIRED | {"node": "plain"}), node(), {})
    assert [one.name for one in made] == ["services", "node"]


def test_without_the_api_there_are_no_checks_of_the_node() -> None:
    made = checks(report(), Requirements(**REQUIRED | {"cluster": False}), {}, {})
    assert not {"node", "offer"} & {one.name for one in made}


@pytest.mark.parametrize(
    ("required", "changes", "text"),
    [
        (
            {},
            {"asked__smi": {"version": None, "cards": 0, "error": "no driver"}},
            "nvidia-smi failed (no driver)",
        ),
        ({}, {"asked__smi__version": "418.67"}, "older than 418.87.01"),
        ({"driver_version": "570"}, {}, "580.65.06 is not 570"),
        ({"driver_version": "58"}, {}, "580.65.06 is not 58"),
        ({}, {"driver__loaded": "570.1"}, "570.1 is loaded and 580.65.06 is installed: reboot"),
    ],
)
def test_a_wrong_driver_fails(required: dict[str, Any], changes: dict[str, Any], text: str) -> None:
    assert text in failure("driver", required, **changes)


@pytest.mark.parametrize("wanted", ["580", "580.65", "580.65.06"])
def test_the_required_driver_can_be_a_branch(wanted: str) -> None:
    assert check("driver", {"driver_version": wanted}).level is Level.OK


def test_gpus_that_the_driver_does_not_report_fail() -> None:
    assert check("cards", asked__smi__cards=1).found == "1 of 2"
    assert check("cards", asked__smi__cards=1).level is Level.FAIL
    assert "on the PCI bus" in check("cards", gpus=[], asked__smi__cards=0).problem


def test_gpus_of_virtual_machines_are_not_expected_anywhere() -> None:
    of_host = report(
        gpus=[V100, V100 | {"driver": "vfio-pci"}],
        asked__smi__cards=1,
        asked__container_cli={"cards": 1, "error": None},
    )
    made = checks(of_host, Requirements(**REQUIRED), node(cards=published(1), mem="31"), {})
    assert [one for one in made if one.level is not Level.OK] == []
    assert next(one.found for one in made if one.name == "cards") == "1 of 1"


def test_gpus_in_mig_mode_are_named_and_not_expected_to_be_shared() -> None:
    partitioned = report(mig=["0000:5e:00.0"])
    made = checks(partitioned, Requirements(**REQUIRED), node(cards=published(1), mem="31"), {})
    found = {one.name: one for one in made}
    assert found["cards"].level is Level.WARN
    assert (
        "in slot 0000:5e:00.0 is in MIG mode, so the node agent does not share it" in found["cards"].problem
    )
    assert found["offer"].level is Level.OK
    whole = checks(partitioned, Requirements(**REQUIRED | {"node": "whole"}), node(mem="0"), {})
    assert next(one for one in whole if one.name == "cards").level is Level.OK


def test_a_host_whose_gpus_are_all_of_virtual_machines_fails_with_that_cause() -> None:
    found = check("cards", gpus=[V100 | {"driver": "vfio-pci"}], asked__smi__cards=0)
    assert (found.level, found.found) == (Level.FAIL, "0 of 0")
    assert "no NVIDIA GPU that is not assigned to virtual machines: detach" in found.problem


DOCKER = {
    "programs__docker": "28.2.2",
    "services__docker__state": "active",
    "kubelet__runtime_endpoint": "unix:///run/cri-dockerd.sock",
    "runtimes__docker": True,
    "asked__docker": {"default": "nvidia", "runtimes": ["nvidia", "runc"]},
}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"programs__containerd": None}, "no containerd is installed"),
        ({"services__containerd__state": "failed"}, "its service containerd is failed"),
        ({"runtimes__containerd": False}, "lacks NVIDIA's runtime"),
        (DOCKER | {"asked__docker": {"default": "runc", "runtimes": ["runc"]}}, "restart it"),
        (DOCKER | {"asked__docker": {"default": "runc", "runtimes": ["nvidia"]}}, "default runtime is runc"),
        (
            {"asked__container_cli": {"cards": 0, "error": "nvml error"}},
            "nvidia-container-cli failed (nvml error)",
        ),
        ({"asked__container_cli": {"cards": 1, "error": None}}, "can use 1 of 2 GPUs"),
    ],
)
def test_a_runtime_without_the_gpus_fails(changes: dict[str, Any], text: str) -> None:
    assert text in failure("runtime", **changes)


def test_a_cdi_specification_replaces_nvidias_runtime() -> None:
    changes = {"runtimes__containerd": False, "runtimes__cdi": True}
    assert check("runtime", **changes).level is Level.OK


def test_docker_with_nvidias_runtime_as_default_passes() -> None:
    assert check("runtime", **DOCKER) == Check("runtime", Level.OK, "docker 28.2.2")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"programs__nvidia_ctk": None}, "is not installed"),
        ({"toolkit__volume_mounts": None}, "accept-nvidia-visible-devices-as-volume-mounts is not true"),
        (
            {"toolkit__envvar_unprivileged": True},
            "accept-nvidia-visible-devices-envvar-when-unprivileged is not false",
        ),
    ],
)
def test_a_toolkit_that_lets_pods_select_gpus_fails(changes: dict[str, Any], text: str) -> None:
    assert text in failure("toolkit", **changes)


def test_with_cdi_no_setting_of_the_toolkit_is_required() -> None:
    assert check("toolkit", toolkit__volume_mounts=None, **CDI).level is Level.OK
    open_to_pods = check("toolkit", toolkit__volume_mounts=None, toolkit__envvar_unprivileged=None, **CDI)
    assert open_to_pods.level is Level.WARN
    assert "pods without units can select GPUs" in open_to_pods.problem
    by_mounts = {"device_list_strategy": "volume-mounts"}
    assert check("toolkit", by_mounts, toolkit__volume_mounts=None, **CDI).level is Level.FAIL


K3S = {"container_runtime_engine_service": "k3s-agent"}
OF_K3S = {
    "kubelet__runtime_endpoint": None,
    "services": {"k3s-agent": {"state": "active", "pid": 2}},
}


def test_the_engine_of_k3s_and_its_service_are_checked() -> None:
    assert check("runtime", K3S, **OF_K3S) == Check("runtime", Level.OK, "containerd 1.7.27")
    assert check("runtime", K3S, **OF_K3S, programs__docker="28.2.2").found == "containerd 1.7.27"
    assert check("services", K3S, **OF_K3S) == Check("services", Level.OK, "1 of 1")
    stopped = {**OF_K3S, "services": {"k3s-agent": {"state": "failed", "pid": 0}}}
    for name in ("runtime", "services"):
        assert "service k3s-agent is failed: journalctl -u k3s-agent" in check(name, K3S, **stopped).problem


def test_a_service_of_the_engine_alone_runs_no_kubelet() -> None:
    service = {"container_runtime_engine_service": "containerd-2"}
    found = check("services", service, services__kubelet__state="failed")
    assert found.problem == "service kubelet is failed: journalctl -u kubelet"


def test_services_that_do_not_run_are_named() -> None:
    found = check("services", {"services": ["kubelet", "docker"]})
    assert (found.found, found.problem) == ("1 of 2", "service docker is absent: journalctl -u docker")


@pytest.mark.parametrize(
    ("of_node", "text"),
    [
        ({}, "the cluster has no node gpu-1"),
        (node(ready="Unknown"), "is not Ready"),
        (node(spec={"unschedulable": True}), "kubectl uncordon gpu-1"),
    ],
)
def test_a_missing_or_unschedulable_node_fails(of_node: dict[str, Any], text: str) -> None:
    assert text in failure("node", None, of_node)


@pytest.mark.parametrize(
    ("mode", "labels", "problem"),
    [
        ("share", {"gpushare": "true", "cgpu": "true"}, ""),
        ("share", {"ack.node.gpu.schedule": "mps"}, ""),
        ("share", {}, "mode labels (none) mean whole GPUs, not shared GPUs"),
        ("share", {"gpushare": "false"}, "mode labels (gpushare=false) mean whole GPUs"),
        ("whole", {"gpushare": "false", "cgpu": "false"}, ""),
        ("whole", {}, ""),
        ("whole", {"cgpu": "true"}, "mode labels (cgpu=true) mean shared GPUs, not whole GPUs"),
        ("plain", {}, ""),
        ("plain", {"node-role.kubernetes.io/control-plane": ""}, ""),
    ],
)
def test_the_labels_must_have_the_mode_of_the_node(mode: str, labels: dict[str, str], problem: str) -> None:
    found = check("node", {"node": mode}, node(labels=labels))
    assert found.level is (Level.FAIL if problem else Level.OK)
    assert problem in found.problem


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({"pool": "a"}, ""),
        ({}, "label pool is missing, not a"),
        ({"pool": "b"}, "label pool is b, not a"),
    ],
)
def test_additional_labels_can_be_required(labels: dict[str, str], problem: str) -> None:
    found = check("node", {"labels": {"pool": "a"}}, node(labels={"gpushare": "true", **labels}))
    assert found.level is (Level.FAIL if problem else Level.OK)
    assert problem in found.problem


@pytest.mark.parametrize(
    ("required", "of_node", "text"),
    [
        ({}, node(mem="0"), f"offers no {RESOURCE_MEM}"),
        ({}, node(whole="2"), f"offers no {RESOURCE_MEM}"),
        ({}, node(mem="62", whole="2"), "GPUs can be allocated twice"),
        ({"node": "whole"}, node(mem="62"), f"offers no {RESOURCE_WHOLE_GPU}"),
        ({}, node(cards=published(1)), "shares 1 of 2 GPUs"),
        ({}, node(cards="{"), "is not a valid list of GPUs"),
    ],
)
def test_a_node_that_offers_the_wrong_resources_fails(
    required: dict[str, Any], of_node: dict[str, Any], text: str
) -> None:
    assert text in failure("offer", required, of_node)


@pytest.mark.parametrize(
    ("required", "of_node"),
    [({}, node(mem="15k")), ({}, node(cards=None)), ({"node": "whole"}, node(whole="2", cards=None))],
)
def test_a_node_that_offers_the_right_resources_passes(
    required: dict[str, Any], of_node: dict[str, Any]
) -> None:
    assert check("offer", required, of_node).level is Level.OK


@pytest.mark.parametrize("labels", [{"cgpu": "true"}, {"ack.node.gpu.schedule": "mps"}])
def test_a_node_that_enforces_limits_has_a_separate_filesystem_for_regions(labels: dict[str, str]) -> None:
    assert check("regions", None, node(labels=labels)).level is Level.OK
    found = check("regions", None, node(labels=labels), regions_mounted=False)
    assert (found.level, found.found) == (Level.WARN, "in /run")
    assert "run the role container_runtime" in found.problem


@pytest.mark.parametrize(
    "labels", [{"gpushare": "true"}, {"cgpu": "true", "cgpu.disable.isolation": "true"}, {"cgpu": "false"}]
)
def test_a_node_without_limits_needs_no_filesystem_for_regions(labels: dict[str, str]) -> None:
    made = checks(report(regions_mounted=False), Requirements(**REQUIRED), node(labels=labels), {})
    assert "regions" not in [one.name for one in made]


@pytest.mark.parametrize(
    ("options", "found"),
    [(["ro", "relatime"], "ro"), (["rw", "nosuid", "noexec"], "noexec"), (["ro", "noexec"], "ro and noexec")],
)
def test_a_node_that_enforces_limits_can_write_and_execute_the_library(
    options: list[str], found: str
) -> None:
    assert check("library", None, node(labels={"cgpu": "true"})).level is Level.OK
    made = check(
        "library", None, node(labels={"cgpu": "true"}), library_mount={"point": "/var", "options": options}
    )
    assert (made.level, made.found) == (Level.FAIL, found)
    for part in ("/var/lib/gpushare is on /var,", "container_runtime_library_folder", "isolation.folder"):
        assert part in made.problem


def test_a_node_with_unknown_mounts_passes() -> None:
    assert check("library", None, node(labels={"cgpu": "true"}), library_mount=None).level is Level.OK


def test_an_extender_that_does_not_answer_this_host_fails() -> None:
    answer = {"status": -1, "url": "http://127.0.0.1:32766/version", "msg": "refused"}
    found = check("extender", None, None, answer)
    assert found.level is Level.FAIL
    assert found.problem.startswith("http://127.0.0.1:32766/version does not answer from this host (refused)")
    assert found.found == "no answer"


UNMANAGED = {"driver_state": "unmanaged", "container_runtime_state": "unmanaged", "driver_version": "999.1"}


@pytest.mark.parametrize(
    ("name", "changes", "text"),
    [
        ("driver", {"asked__smi": {"version": None, "cards": 0, "error": "no"}}, "check the driver where"),
        ("driver", {"asked__smi__version": "418.67"}, "older than 418.87.01: change the driver where"),
        ("driver", {}, "580.65.06 is not 999.1: change the driver where"),
        ("runtime", {"runtimes__containerd": False}, "set it in the ClusterPolicy"),
        ("toolkit", {"programs__nvidia_ctk": None}, "check the toolkit pods"),
        ("toolkit", {"toolkit__volume_mounts": False}, "is not true: set it in the ClusterPolicy"),
    ],
)
def test_what_is_not_managed_is_not_fixed_by_a_role(name: str, changes: dict[str, Any], text: str) -> None:
    found = check(name, UNMANAGED, **changes)
    assert found.level is Level.FAIL
    assert text in found.problem
    assert "run the role" not in found.problem
    assert "playbook" not in found.problem


def test_mode_cdi_needs_a_specification_of_the_gpus() -> None:
    text = "there is no CDI specification, so containers get no GPU: write one (docs/how-to/gpu-operator.md)"
    assert text in failure("runtime", UNMANAGED, toolkit__mode="cdi")
    of_plugin = {**CDI_SPEC, "kind": "k8s.device-plugin.nvidia.com/gpu", "names": ["GPU-a", "GPU-b"]}
    operators = {"cdi": [of_plugin], "programs__containerd": "2.2.1", "toolkit__mode": "cdi"}
    assert check("runtime", UNMANAGED, **operators).level is Level.OK
    assert check("runtime", UNMANAGED, toolkit__mode="cdi", runtimes__cdi=True).level is Level.OK
    assert check("runtime", UNMANAGED, toolkit__mode="auto").level is Level.OK


BOTH = {"mem": "62", "whole": "2"}
STATIC = "run playbook switch_mode"


@pytest.mark.parametrize(
    ("required", "labels", "amounts", "text"),
    [
        ({}, {LABEL_OPERATOR_PLUGIN: "true"}, BOTH, f"gpu-1 {LABEL_OPERATOR_PLUGIN}=false --overwrite"),
        ({}, {LABEL_OPERATOR_PLUGIN: "false"}, BOTH, STATIC),
        ({"plugins": ["kube-system/nvidia"]}, {}, BOTH, "from DaemonSet kube-system/nvidia with a node aff"),
        ({}, {}, BOTH, STATIC),
        ({"node": "whole", "plugins": ["a/b"]}, {LABEL_OPERATOR_PLUGIN: "true"}, BOTH, STATIC),
        (
            {"node": "whole"},
            {LABEL_OPERATOR_PLUGIN: "false"},
            {"whole": "0"},
            f"kubectl label node gpu-1 {LABEL_OPERATOR_PLUGIN}=true --overwrite",
        ),
        ({"node": "whole"}, {LABEL_OPERATOR_PLUGIN: "true"}, {"whole": "0"}, "log of its device plugin"),
    ],
)
def test_two_plugins_or_none_have_a_cause_and_a_command(
    required: dict[str, Any], labels: dict[str, str], amounts: dict[str, Any], text: str
) -> None:
    assert text in failure("offer", required, node(labels=labels, **amounts))


def daemon_set(name: str, image: str, **selector: str) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "containers": [{"name": "a", "image": "x/sidecar:1"}, {"name": "b", "image": image}]
    }
    if selector:
        pod["nodeSelector"] = selector
    return {"metadata": {"namespace": "n", "name": name}, "spec": {"template": {"spec": pod}}}


def test_nvidias_plugins_are_found_by_image_except_that_of_the_operator() -> None:
    image = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
    found = [
        daemon_set("static-file", image),
        daemon_set("chart", "nvcr.io/nvidia/k8s-device-plugin@sha256:1", zone="a"),
        daemon_set("gke", "gke.gcr.io/nvidia-gpu-device-plugin:1"),
        daemon_set("operator", image, **{LABEL_OPERATOR_PLUGIN: "true"}),
        daemon_set("ours", "example.com/device-plugin:1"),
        daemon_set("another", "example.com/nvidia-dcgm-exporter:1"),
    ]
    assert plugin_daemon_sets(found) == ["n/chart", "n/gke", "n/static-file"]
