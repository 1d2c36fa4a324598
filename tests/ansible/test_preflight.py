"""The checks of the role preflight, with one changed fact at a time."""

from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.checks import Check, Level
from ansible_collections.gpushare.nodes.plugins.plugin_utils.preflight import Requirements, checks
from tests.ansible.reports import CDI, CDI_SPEC, TITAN_XP, V100, report

REQUIRED: dict[str, Any] = {
    "node": "share",
    "ansible_core": "2.19.14",
    "kernel_headers": "wanted",
    "min_free": [{"path": "/", "mib": 2048}, {"path": "/var", "mib": "5120"}],
    "unlisted_cards": "warn",
    "driver_minimum": "418.87.01",
    "driver_version": "",
    "driver_state": "present",
    "driver_repo": "nvidia",
    "kernel_module_type": "auto",
    "container_runtime": "auto",
    "container_runtime_engine": "",
    "container_runtime_state": "present",
    "kubernetes_version": "",
    "device_list_strategy": "auto",
}
DOCKER = {
    "programs__containerd": "1.7.27",
    "programs__docker": "28.2.2",
    "services__docker__state": "active",
    "kubelet__runtime_endpoint": None,
}


def check(check_name: str, required: dict[str, Any] | None = None, /, **changes: Any) -> Check:
    made = checks(report(**changes), Requirements(**REQUIRED | (required or {})))
    return next(one for one in made if one.name == check_name)


def test_a_correct_host_passes_every_check() -> None:
    made = checks(report(), Requirements(**REQUIRED))
    assert {one.level for one in made} == {Level.OK}
    assert len({one.name for one in made}) == len(made)


def test_a_plain_host_needs_no_gpus() -> None:
    made = checks(report(gpus=[], kernel__headers=False), Requirements(**REQUIRED | {"node": "plain"}))
    assert {one.level for one in made} == {Level.OK}
    assert "cards" not in {one.name for one in made}


SYSTEMS = {
    "debian 13": {"id": "debian", "version": "13", "like": ""},
    "ubuntu 26.04": {"id": "ubuntu", "version": "26.04", "like": "debian"},
    "ubuntu 20.04": {"id": "ubuntu", "version": "20.04", "like": "debian"},
    "almalinux 9.6": {"id": "almalinux", "version": "9.6", "like": "rhel centos fedora"},
    "ol 10.0": {"id": "ol", "version": "10.0", "like": "fedora"},
    "rocky 8.10": {"id": "rocky", "version": "8.10", "like": "rhel centos fedora"},
    "amzn 2023": {"id": "amzn", "version": "2023", "like": "fedora"},
    "alinux 3": {"id": "alinux", "version": "3", "like": "rhel fedora centos anolis"},
    "sles 15.7": {"id": "sles", "version": "15.7", "like": "suse"},
    "fedora 43": {"id": "fedora", "version": "43", "like": ""},
    "centos 7.9": {"id": "centos", "version": "7.9", "like": "rhel fedora"},
}
NOT_INSTALLED = ({"node": "plain"}, {"driver_state": "unmanaged", "container_runtime_state": "unmanaged"})


def system(name: str, required: dict[str, str] | None = None) -> Check:
    return check("system", required, os={**SYSTEMS[name], "name": f"The {name}"})


@pytest.mark.parametrize("name", ["debian 13", "ubuntu 26.04", "almalinux 9.6", "ol 10.0", "amzn 2023"])
def test_a_system_of_the_table_and_its_rebuilds_pass(name: str) -> None:
    assert system(name) == Check("system", Level.OK, name)


@pytest.mark.parametrize("name", ["ubuntu 20.04", "fedora 43"])
def test_an_unknown_system_fails_where_the_driver_would_be_installed(name: str) -> None:
    refused = system(name)
    assert (refused.level, refused.found) == (Level.FAIL, name)
    assert f"The {name} is not in the table of systems" in refused.problem
    assert "set nvidia_driver_repo_url and nvidia_driver_repo_key" in refused.problem
    for required in (*NOT_INSTALLED, {"driver_state": "unmanaged"}, {"driver_repo": "own"}):
        assert system(name, required).level is Level.WARN


def test_a_host_without_os_release_is_unknown_too() -> None:
    nothing = dict.fromkeys(("id", "version", "like", "name"), "")
    assert "a system without os-release" in check("system", os=nothing).problem


def test_a_system_whose_package_manager_the_roles_do_not_use_fails_only_where_they_would() -> None:
    refused = system("sles 15.7")
    assert refused.level is Level.FAIL
    assert "no packages with zypper" in refused.problem
    assert system("sles 15.7", {"driver_repo": "own"}).level is Level.FAIL
    assert {system("sles 15.7", required).level for required in NOT_INSTALLED} == {Level.OK}


@pytest.mark.parametrize("name", ["rocky 8.10", "alinux 3", "centos 7.9"])
def test_a_legacy_system_needs_the_old_ansible_core(name: str) -> None:
    assert system(name, {"ansible_core": "2.16.14"}).level is Level.WARN
    refused = system(name)
    assert refused.level is Level.FAIL
    assert "ansible-core 2.19.14 cannot install packages" in refused.problem
    assert {system(name, required).level for required in NOT_INSTALLED} == {Level.WARN}


def test_an_old_python_is_a_warning() -> None:
    assert check("python", python="2.7.5").level is Level.WARN
    assert check("python", python="3.8.0").level is Level.OK


UNMANAGED = {"driver_state": "unmanaged", "container_runtime_state": "unmanaged"}


def test_a_host_whose_packages_cannot_be_read_fails_with_the_command() -> None:
    found = check("python", apt_library=False)
    assert found.level is Level.FAIL
    assert "apt-get install python3-apt" in found.problem
    assert check("python", {"driver_state": "unmanaged"}, apt_library=False).level is Level.FAIL


@pytest.mark.parametrize("required", [UNMANAGED, {"node": "plain"}])
def test_a_host_whose_packages_no_role_reads_needs_no_library(required: dict[str, str]) -> None:
    assert check("python", required, apt_library=False).level is Level.OK


def test_a_host_without_apt_needs_no_library_of_it() -> None:
    assert check("python", apt_library=None).level is Level.OK


@pytest.mark.parametrize(
    ("setting", "level"), [("required", Level.FAIL), ("wanted", Level.WARN), ("ignored", Level.OK)]
)
def test_missing_headers_have_the_configured_level(setting: str, level: Level) -> None:
    found = check("kernel", {"kernel_headers": setting}, kernel__headers=False)
    assert found.level is level
    assert ("linux-headers-6.1.0-40-amd64" in found.problem) is (level is not Level.OK)


def test_a_full_disk_fails_with_its_folder_and_amounts() -> None:
    found = check("disk", disk__var={}, **{"disk__/var": {"free_mib": 5119, "size_mib": 9}})
    assert found.level is Level.FAIL
    assert found.problem == "/var has 5119 MiB free, preflight_min_free requires 5120: free disk space"


@pytest.mark.parametrize(
    ("cgroup", "changes", "level"),
    [
        ("v2", {}, Level.OK),
        ("none", {}, Level.FAIL),
        ("v1", {}, Level.WARN),
        ("hybrid", {}, Level.WARN),
        ("v1", {"programs__kubelet": "1.34.1"}, Level.OK),
        ("v2", DOCKER | {"programs__docker": "19.03.5"}, Level.FAIL),
        ("v1", DOCKER | {"programs__docker": "19.03.5", "programs__kubelet": "1.16.6"}, Level.OK),
    ],
)
def test_cgroups_must_be_supported_by_kubelet_and_runtime(
    cgroup: str, changes: dict[str, Any], level: Level
) -> None:
    assert check("cgroup", cgroup=cgroup, **changes).level is level


@pytest.mark.parametrize("kubelet", ["1.24.0", "1.36.1"])
def test_docker_without_cri_dockerd_fails_from_1_24_on(kubelet: str) -> None:
    found = check("runtime", **DOCKER, programs__kubelet=kubelet)
    assert found.level is Level.FAIL
    assert "docker needs cri-dockerd from 1.24 on" in found.problem
    assert found.found == "docker 28.2.2"


def test_docker_before_1_24_and_docker_with_cri_dockerd_pass() -> None:
    assert check("runtime", **DOCKER, programs__kubelet="1.23.17").level is Level.OK
    with_it = DOCKER | {"programs__cri_dockerd": "0.3.21", "services__cri_docker__state": "active"}
    assert check("runtime", **with_it).level is Level.OK
    stopped = check("runtime", **with_it | {"services__cri_docker__state": "inactive"})
    assert stopped.level is Level.FAIL
    assert "cri-docker is inactive" in stopped.problem


def test_docker_that_is_not_installed_yet_also_needs_cri_dockerd() -> None:
    found = check("runtime", {"container_runtime": "docker"})
    assert (found.level, found.found) == (Level.FAIL, "no docker")
    assert "docker needs cri-dockerd from 1.24 on" in found.problem


def test_the_endpoint_of_the_kubelet_selects_one_of_two_runtimes() -> None:
    endpoint = "unix:///run/containerd/containerd.sock"
    found = check("runtime", **DOCKER | {"kubelet__runtime_endpoint": endpoint})
    assert (found.level, found.found) == (Level.OK, "containerd 1.7.27")
    configured = check("runtime", {"container_runtime": "docker"}, **DOCKER)
    assert configured.found == "docker 28.2.2"


def test_without_a_kubelet_the_version_of_the_cluster_can_be_configured() -> None:
    found = check("runtime", {"kubernetes_version": "1.30"}, **DOCKER, programs__kubelet=None)
    assert "Kubernetes 1.30 has no dockershim" in found.problem
    assert check("kubelet", programs__kubelet=None).level is Level.WARN


@pytest.mark.parametrize(
    ("socket", "engine", "problem"),
    [
        (
            "cri-dockerd.sock",
            "containerd",
            "the kubelet uses docker, and container_runtime_engine is containerd",
        ),
        ("containerd/containerd.sock", "crio", "uses containerd, and container_runtime_engine is crio"),
        ("crio/crio.sock", "containerd", "set container_runtime_engine to crio"),
        ("crio/crio.sock", "crio", ""),
        ("k3s/containerd/containerd.sock", "containerd", ""),
        ("cri-dockerd.sock", "docker", ""),
        ("cri-dockerd.sock", "", ""),
        (None, "crio", ""),
    ],
)
def test_the_engine_to_configure_is_that_of_the_kubelet(
    socket: str | None, engine: str, problem: str
) -> None:
    changes = {
        **DOCKER,
        "programs__cri_o": "1.32.0",
        "services__crio__state": "active",
        "programs__cri_dockerd": "0.4",
        "services__cri_docker__state": "active",
        "kubelet__runtime_endpoint": socket and f"unix:///run/{socket}",
    }
    found = check("runtime", {"container_runtime_engine": engine}, **changes)
    assert found.level is (Level.FAIL if problem else Level.OK)
    assert problem in found.problem
    for others in ({"node": "plain"}, {"container_runtime_state": "unmanaged"}):
        required = {"container_runtime_engine": engine, **others}
        assert check("runtime", required, **changes).level is Level.OK


def test_a_runtime_that_is_absent_old_or_stopped_is_a_warning() -> None:
    none = check("runtime", programs__containerd=None, kubelet__runtime_endpoint=None)
    assert (none.level, none.found) == (Level.WARN, "none")
    assert check("runtime", services__containerd__state="failed").level is Level.WARN
    old = check("runtime", **DOCKER | {"programs__docker": "19.03.4", "programs__kubelet": "1.20.0"})
    assert (old.level, "19.03.5" in old.problem) == (Level.WARN, True)


def test_a_kubelet_before_1_16_fails() -> None:
    assert check("kubelet", programs__kubelet="1.15.3").level is Level.FAIL


def test_a_host_without_a_gpu_fails() -> None:
    assert check("cards", gpus=[]).level is Level.FAIL


def test_an_unlisted_gpu_is_a_warning_or_a_failure_with_its_name() -> None:
    warned = check("cards", gpus=[V100, TITAN_XP])
    assert (warned.level, warned.found) == (Level.WARN, "1 × Tesla V100 PCIe 32GB, 1 × TITAN Xp")
    refused = check("cards", {"unlisted_cards": "refuse"}, gpus=[V100, TITAN_XP])
    assert refused.level is Level.FAIL
    assert refused.problem.startswith("TITAN Xp in slot 0000:af:00.0 is no data-centre GPU")


def test_the_name_of_an_unknown_gpu_is_from_the_host_or_its_device_id() -> None:
    of_host = {"slot": "1", "device": "2684", "name": "GeForce RTX 4090", "driver": None}
    assert "GeForce RTX 4090 in slot 1" in check("cards", gpus=[of_host]).problem
    assert "NVIDIA 10de:2684 in slot 1" in check("cards", gpus=[of_host | {"name": None}]).problem


def test_a_gpu_of_virtual_machines_is_a_warning() -> None:
    assert "vfio-pci" in check("cards", gpus=[V100 | {"driver": "vfio-pci"}]).problem


def test_the_driver_may_be_absent_but_old_ones_and_nouveau_are_warnings() -> None:
    absent = {"driver__loaded": None, "programs__nvidia_module": None}
    assert check("driver", **absent).level is Level.OK
    assert "nouveau" in check("driver", **absent, driver__nouveau=True).problem
    assert check("driver", driver__loaded="418.67").level is Level.WARN
    assert check("driver", driver__loaded="418.87.01").level is Level.OK
    assert check("driver", driver__loaded=None).found == "580.65.06, not loaded"


def test_a_module_that_secure_boot_would_not_load_is_a_warning() -> None:
    boot = {"driver__loaded": None, "secure_boot__enabled": True}
    found = check("driver", **boot)
    assert found.level is Level.WARN
    assert "enroll the key with mokutil first" in found.problem
    assert check("driver", **boot, secure_boot__module_key="/var/lib/dkms/mok.pub").level is Level.OK
    assert check("driver", {"kernel_headers": "ignored"}, **boot).level is Level.OK
    assert check("driver", secure_boot__enabled=True).level is Level.OK


def test_a_change_of_the_driver_that_takes_the_node_out_of_service_is_a_warning() -> None:
    assert check("driver", {"driver_version": "580.65.06"}).level is Level.OK
    found = check("driver", {"driver_version": "580.65.06"}, driver__loaded="535.183.01")
    assert found.level is Level.WARN
    assert "580.65.06 is requested: playbook nodes stops before any change" in found.problem
    assert "playbook upgrade_driver" in found.problem
    absent = {"driver__loaded": None, "programs__nvidia_module": None}
    assert check("driver", {"driver_version": "580.65.06"}, **absent).level is Level.OK


A100 = {"slot": "0000:3b:00.0", "device": "20b2", "name": None, "driver": "nvidia"}
B200 = {**A100, "device": "2901"}


@pytest.mark.parametrize(
    ("gpu", "version", "module", "text"),
    [
        (V100, "590.48.01", "auto", "branch 590 does not serve Tesla V100 PCIe 32GB (Volta)"),
        (B200, "580.65.06", "proprietary", "the proprietary kernel module does not serve B200 (Blackwell)"),
        (B200, "565.57.01", "auto", "whose first branch is 570"),
        (B200, "580.65.06", "auto", ""),
        (B200, "", "proprietary", ""),
        (A100, "580.65.06", "", ""),
    ],
)
def test_a_driver_that_does_not_serve_a_gpu_is_a_warning(
    gpu: dict[str, Any], version: str, module: str, text: str
) -> None:
    required = {"driver_version": version, "kernel_module_type": module}
    absent: dict[str, Any] = {"driver__loaded": None, "programs__nvidia_module": None}
    found = check("driver", required, gpus=[gpu], **absent)
    assert found.level is (Level.WARN if text else Level.OK)
    assert text in found.problem
    assert check("driver", {**required, "driver_state": "unmanaged"}, gpus=[gpu]).level is Level.OK


def test_a_gpu_in_mig_mode_is_a_warning_on_a_node_that_shares() -> None:
    gpus = {"gpus": [A100, {**A100, "slot": "0000:5e:00.0"}], "mig": ["0000:5e:00.0"]}
    found = check("cards", **gpus)
    assert (found.level, found.found) == (Level.WARN, "2 × A100 SXM4 80GB")
    assert "A100 SXM4 80GB in slot 0000:5e:00.0 is in MIG mode" in found.problem
    assert "0000:3b:00.0" not in found.problem
    assert check("cards", {"node": "whole"}, **gpus).level is Level.OK
    assert check("cards", **{**gpus, "mig": None}).level is Level.OK


@pytest.mark.parametrize(
    ("policy", "kept", "level"),
    [
        (None, None, Level.OK),
        ("none", "none", Level.OK),
        ("static", "static", Level.FAIL),
        ("static", None, Level.FAIL),
        (None, "static", Level.FAIL),
    ],
)
def test_a_share_node_without_cdi_cannot_use_the_static_cpu_policy(
    policy: str | None, kept: str | None, level: Level
) -> None:
    changes = {"kubelet__cpu_manager_policy": policy, "kubelet__cpu_manager_state": kept}
    assert check("cpu policy", **changes).level is level
    assert check("cpu policy", {"device_list_strategy": "cdi"}, **changes).level is Level.OK
    whole = checks(report(**changes), Requirements(**REQUIRED | {"node": "whole"}))
    assert "cpu policy" not in {one.name for one in whole}


STATIC = {"kubelet__cpu_manager_policy": "static", "kubelet__cpu_manager_state": "static"}


def test_a_host_for_which_auto_is_cdi_can_use_the_static_cpu_policy() -> None:
    assert check("cpu policy", **STATIC, **CDI).level is Level.OK
    assert check("cpu policy", {"device_list_strategy": "volume-mounts"}, **STATIC, **CDI).level is Level.FAIL


def test_a_host_that_gets_its_specification_by_the_role_is_warned() -> None:
    without = {**CDI, "cdi": []}
    found = check("cpu policy", **STATIC, **without)
    assert found.level is Level.WARN
    assert "until the role container_runtime has run (no CDI specification in " in found.problem
    assert (
        check("cpu policy", {"container_runtime_state": "unmanaged"}, **STATIC, **without).level is Level.FAIL
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"programs__containerd": "1.7.28"}, "containerd 1.7.28 reads CDI specifications only if"),
        ({"programs__kubelet": "1.28.4"}, "kubelet v1.28.4 ignores CDI devices"),
        (
            {"cdi": [{**CDI_SPEC, "version": "1.1.0"}], "programs__containerd": "2.1.4"},
            "reads those up to 1.0.0",
        ),
        ({"cdi": [{**CDI_SPEC, "names": ["0", "1", "all"]}]}, "names the GPUs of this host"),
    ],
)
def test_the_check_says_what_a_host_lacks_for_cdi(changes: dict[str, Any], says: str) -> None:
    found = check("cpu policy", {"container_runtime_state": "unmanaged"}, **STATIC, **(CDI | changes))
    assert found.level is Level.FAIL
    assert says in found.problem


OPERATOR: dict[str, Any] = {"operator__driver": True, "programs__nvidia_module": None}


def test_a_driver_of_the_operator_is_left_to_it() -> None:
    found = check("driver", **OPERATOR)
    assert found.level is Level.FAIL
    assert "/run/nvidia/driver" in found.problem
    assert "set nvidia_driver_state to unmanaged" in found.problem
    unmanaged = {"driver_state": "unmanaged", "driver_version": "999.1"}
    assert check("driver", unmanaged, **OPERATOR) == Check("driver", Level.OK, "580.65.06")
    assert check("kernel", unmanaged, kernel__headers=False).level is Level.OK


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"driver__loaded": None, "programs__nvidia_module": None}, "check the driver pods"),
        ({"driver__nouveau": True}, "nouveau is loaded: disable it"),
        ({"driver__loaded": "390.1"}, "older than 418.87.01"),
    ],
)
def test_problems_of_an_unmanaged_driver_name_no_role(changes: dict[str, Any], text: str) -> None:
    found = check("driver", {"driver_state": "unmanaged"}, **changes)
    assert found.level is Level.WARN
    assert text in found.problem
    assert "role" not in found.problem


def test_a_toolkit_of_the_operator_is_left_to_it() -> None:
    found = check("runtime", operator__toolkit=True)
    assert found.level is Level.FAIL
    assert "set container_runtime_state to unmanaged" in found.problem
    unmanaged = {"container_runtime_state": "unmanaged"}
    assert check("runtime", unmanaged, operator__toolkit=True).level is Level.OK
