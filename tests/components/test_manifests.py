import re
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from components.formats import MODE_LABELS
from components.manifests import everything, extender
from components.manifests.localized import mirrored, used
from components.stack import from_file, load
from gpushare.board.settings import BoardSettings
from gpushare.cli.node_mode import command as node_mode
from gpushare.cli.scheduler_manifest import command as scheduler_manifest
from gpushare.contract import EXTENDER_NAME
from gpushare.deviceplugin.settings import AgentSettings
from gpushare.exporter.settings import ExporterSettings
from gpushare.extender.settings import ExtenderSettings, WebhookSettings, replica_of
from gpushare.installer.settings import InstallerSettings
from gpushare.metricsapi.settings import MetricsApiSettings
from gpushare.model.modes import LIMITING, Mode, mode_of
from gpushare.model.options import DeviceListChoice, MemoryUnit
from gpushare.mps.layout import MpsDirs
from gpushare.mpsd.settings import MpsSettings
from tests.support.builders import kubeadm
from tests.support.builders.services import settings_in
from tests.support.builders.stacks import DIGEST, ROOT, STACKS, raw_stack, sidecar

Object = dict[str, Any]
NAMING = "gpushare-scheduler-name"
MONITORING: Object = {
    "exporter": {"image": DIGEST},
    "metricsApi": {"image": DIGEST, "tlsSecret": "tls", "caBundle": "-----BEGIN CERTIFICATE-----"},
}
ADDED_CAPABILITIES = {"gpushare-mps": ["SYS_ADMIN", "SETUID", "SETGID"]}
FILES = ROOT / "components" / "monitoring"


def made(**changes: Any) -> list[Object]:
    return everything(load(raw_stack(**changes)))


def pick(objects: Iterable[Object], kind: str, name: str | None = None) -> Object:
    (found,) = [each for each in objects if each["kind"] == kind and name in (None, each["metadata"]["name"])]
    return found


def exporter_of(objects: Iterable[Object]) -> Object:
    return pick(objects, "DaemonSet", "gpushare-exporter")


def template(workload: Object) -> Object:
    """The template of its pods; empty for objects without pods."""
    spec = workload.get("spec", {})
    found: Object = spec.get("jobTemplate", {}).get("spec", spec).get("template", {})
    return found


def pod(workload: Object) -> Object:
    spec: Object = template(workload)["spec"]
    return spec


def pods(objects: Iterable[Object]) -> list[Object]:
    return [pod(each) for each in objects if template(each)]


def all_stacks() -> list[list[Object]]:
    return [everything(load(from_file(path))) for path in STACKS.values()]


def test_without_the_lease_permission_no_rule_names_leases() -> None:
    assert "leases" not in str(made(extender={"lease": False}))


@pytest.mark.parametrize("lease", [True, False])
def test_an_extender_binds_without_a_lease_only_without_that_permission(*, lease: bool) -> None:
    container = pod(pick(made(extender={"lease": lease}), "Deployment"))["containers"][0]
    settings = settings_in(container, ExtenderSettings)
    assert settings.allow_without_lease is not lease


def test_an_objects_kind_namespace_and_name_occur_once() -> None:
    for objects in all_stacks():
        names = [
            (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects
        ]
        assert len(names) == len(set(names))


def test_selectors_select_their_own_pods_only() -> None:
    for objects in all_stacks():
        workloads = [
            each for each in objects if "selector" in each.get("spec", {}) and "template" in each["spec"]
        ]
        for one in workloads:
            wanted = one["spec"]["selector"]["matchLabels"].items()
            matching = [
                each for each in workloads if wanted <= each["spec"]["template"]["metadata"]["labels"].items()
            ]
            assert matching == [one]


def test_every_container_has_limits_and_no_privileges() -> None:
    for objects in all_stacks():
        for container in [each for spec in pods(objects) for each in spec["containers"]]:
            resources = container["resources"]
            assert resources["requests"] == resources["limits"] or container["name"] == "kube-scheduler"
            assert resources["requests"].keys() == resources["limits"].keys() == {"cpu", "memory"}
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            added = ADDED_CAPABILITIES.get(container["name"], ())
            assert security["capabilities"] == {"drop": ["ALL"], **({"add": [*added]} if added else {})}


def test_every_mount_has_a_volume_and_every_volume_a_mount() -> None:
    for objects in all_stacks():
        for spec in pods(objects):
            volumes = {each["name"] for each in spec.get("volumes", ())}
            mounts = {each["name"] for c in spec["containers"] for each in c.get("volumeMounts", ())}
            assert volumes == mounts


def test_the_extender_has_the_address_of_the_policy_in_the_ack_documentation() -> None:
    objects = made()
    spec = pick(objects, "Service")["spec"]
    assert (spec["type"], spec["ports"][0]["port"], spec["ports"][0]["nodePort"]) == (
        "NodePort",
        12345,
        32766,
    )
    assert spec["selector"] == {"app": "gpushare", "component": "gpushare-schd-extender"}
    deployment = pick(objects, "Deployment")
    assert pod(deployment)["hostNetwork"] is True
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}


def test_three_replicas_run_on_different_nodes_and_two_stay_available() -> None:
    objects = made(extender={"replicas": 3})
    assert pick(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    deployment = pick(objects, "Deployment")
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert "podAntiAffinity" in pod(deployment)["affinity"]


def test_replicas_are_in_different_zones_where_that_is_possible() -> None:
    spread = pod(pick(made(extender={"replicas": 3}), "Deployment"))["topologySpreadConstraints"]
    assert [(each["topologyKey"], each["whenUnsatisfiable"]) for each in spread] == [
        ("topology.kubernetes.io/zone", "ScheduleAnyway")
    ]
    older = made(extender={"replicas": 3}, kubernetesVersion="1.18", admission=False)
    for objects in (made(), older):
        assert "topologySpreadConstraints" not in pod(pick(objects, "Deployment"))


def test_a_single_replica_has_no_disruption_budget() -> None:
    assert not [each for each in made() if each["kind"] == "PodDisruptionBudget"]


@pytest.mark.parametrize(
    ("version", "labels"), [("1.24", ["control-plane", "master"]), ("1.25", ["control-plane"])]
)
def test_control_plane_nodes_are_selected_by_the_labels_of_their_version(
    version: str, labels: list[str]
) -> None:
    spec = pod(pick(made(kubernetesVersion=version, admission=False), "Deployment"))
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    keys = [term["matchExpressions"][0]["key"] for term in terms]
    assert keys == [f"node-role.kubernetes.io/{label}" for label in labels]
    assert {each["key"] for each in spec["tolerations"]} >= set(keys)


def test_the_extender_and_its_scheduler_run_as_an_unprivileged_user() -> None:
    for settings in ({}, sidecar()):
        security = pod(pick(made(extender=settings), "Deployment"))["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 65532)


def test_a_sidecar_listens_on_loopback_beside_a_scheduler_with_another_name() -> None:
    objects = made(extender=sidecar())
    assert not [each for each in objects if each["kind"] == "Service"]
    config = yaml.safe_load(pick(objects, "ConfigMap")["data"]["config.yaml"])
    (entry,) = config["extenders"]
    assert entry["urlPrefix"] == "http://127.0.0.1:12345/gpushare-scheduler"
    assert config["profiles"] == [{"schedulerName": "gpushare-scheduler"}]
    assert config["leaderElection"] == {"leaderElect": True, "resourceName": "gpushare-scheduler"}
    ours, theirs = pod(pick(objects, "Deployment"))["containers"]
    assert "--host=127.0.0.1" in ours["command"]
    assert theirs["command"][1] == "--config=/etc/gpushare/scheduler/config.yaml"


@pytest.mark.parametrize("tls", [{"tlsSecret": "tls"}, {}])
def test_sidecars_forward_binds_on_a_port_with_tls_and_one_of_them_may_be_away(tls: dict[str, str]) -> None:
    objects = made(extender=sidecar(replicas=3, **tls))
    deployment = pick(objects, "Deployment", "gpushare-schd-extender")
    command = pod(deployment)["containers"][0]["command"]
    assert {"--host=127.0.0.1", "--peer-port=12352", "--client-ca=/etc/gpushare/tls/ca.crt"} <= set(command)
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert "requiredDuringSchedulingIgnoredDuringExecution" in pod(deployment)["affinity"]["podAntiAffinity"]
    assert pick(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_other_names_of_certificates_are_flags_of_the_extender() -> None:
    objects = made(extender={"tlsSecret": "tls", "clientNames": ["cards", "scheduler"]})
    command = pod(pick(objects, "Deployment"))["containers"][0]["command"]
    assert command[-2:] == ["--client-name=cards", "--client-name=scheduler"]


@pytest.mark.parametrize(
    ("extender", "port"), [(sidecar(), 10259), (sidecar(replicas=2, tlsSecret="tls"), 12346)]
)
def test_of_several_schedulers_one_without_an_extender_is_restarted(
    extender: dict[str, Any], port: int
) -> None:
    _, scheduler = pod(pick(made(extender=extender), "Deployment"))["containers"]
    assert scheduler["livenessProbe"]["httpGet"]["port"] == port
    assert scheduler["readinessProbe"]["httpGet"]["port"] == 10259


def test_the_account_of_sidecars_may_keep_the_lease_of_their_schedulers() -> None:
    objects = made(extender=sidecar(scheduler={"image": DIGEST, "name": "cards"}))
    (role,) = [each for each in objects if each["kind"] == "Role" and each["metadata"]["name"] == "cards"]
    assert [each.get("resourceNames") for each in role["rules"]] == [["cards"], None]


def test_a_scheduler_without_a_lease_needs_no_right_to_one() -> None:
    objects = made(extender=sidecar(lease=False))
    assert "leases" not in yaml.safe_dump([each for each in objects if each["kind"] == "Role"])


@pytest.mark.parametrize(
    ("version", "set_scheduler_name", "kinds"),
    [
        ("1.36", True, {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"}),
        ("1.35", True, {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}),
        ("1.30", True, {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}),
        ("1.29", True, set()),
        ("1.36", False, set()),
    ],
)
def test_pods_with_gpu_memory_get_the_scheduler_of_the_sidecar_where_the_api_server_can_set_it(
    version: str,
    set_scheduler_name: bool,  # noqa: FBT001 - a parameter of the test
    kinds: set[str],
) -> None:
    scheduler = {"image": DIGEST, "setSchedulerName": set_scheduler_name}
    objects = made(extender=sidecar(scheduler=scheduler), kubernetesVersion=version)
    found = [each for each in objects if is_naming(each)]
    assert {each["kind"] for each in found} == kinds


@pytest.mark.parametrize(("version", "conditions"), [("1.29", 0), ("1.30", 3), ("1.35", 3)])
def test_before_the_policy_a_webhook_names_the_scheduler(version: str, conditions: int) -> None:
    webhook = {"tlsSecret": "t", "caBundle": "-----BEGIN CERTIFICATE-----"}
    scheduler = {"image": DIGEST, "name": "cards", "webhook": webhook}
    objects = made(extender=sidecar(scheduler=scheduler), kubernetesVersion=version)
    assert not [each for each in objects if each["kind"] == "ValidatingAdmissionPolicy" if is_naming(each)]
    (hook,) = pick(objects, "MutatingWebhookConfiguration")["webhooks"]
    assert (hook["failurePolicy"], len(hook.get("matchConditions", ()))) == ("Ignore", conditions)
    (container,) = pod(pick(objects, "Deployment", NAMING))["containers"]
    settings = settings_in(container, WebhookSettings)
    assert settings.scheduler_name == "cards"
    assert {each["containerPort"] for each in container["ports"]} == {settings.port, settings.ops_port}
    assert hook["clientConfig"]["service"]["name"] == pick(objects, "Service", NAMING)["metadata"]["name"]
    assert pick(objects, "Service", NAMING)["spec"]["ports"][0]["targetPort"] == settings.port


def is_naming(each: Object) -> bool:
    return bool(each["metadata"]["name"] == NAMING)


def test_other_exposures_leave_the_scheduler_of_pods_alone() -> None:
    assert not [each for each in made() if each["kind"].startswith("MutatingAdmissionPolicy")]


def test_a_changed_scheduler_configuration_replaces_the_pod() -> None:
    marks = {
        version: pick(made(extender=sidecar(), kubernetesVersion=version), "Deployment")["spec"]["template"][
            "metadata"
        ]["annotations"]["checksum/config"]
        for version in ("1.24", "1.35", "1.36")
    }
    assert marks["1.24"] != marks["1.35"] == marks["1.36"]


def test_the_extender_parses_its_arguments_and_listens_on_the_port_of_the_probes() -> None:
    chosen = {"tlsSecret": "tls", "shortlist": 50, "cgpuPodsPerCard": 0}
    container = pod(pick(made(extender=chosen), "Deployment"))["containers"][0]
    settings = settings_in(container, ExtenderSettings)
    assert (settings.port, settings.ops_port) == (12345, 12346)
    assert {each["containerPort"] for each in container["ports"]} == {settings.port, settings.ops_port}
    assert replica_of(settings, {"POD_IP": "10.0.0.1"}, "host", "").address == "10.0.0.1:12345"
    assert settings.tls is not None
    assert (settings.shortlist, settings.cgpu_pods_per_card) == (50, 0)


def test_unset_values_are_the_defaults_of_the_extender() -> None:
    container = pod(pick(made(), "Deployment"))["containers"][0]
    settings = settings_in(container, ExtenderSettings)
    assert (settings.shortlist, settings.cgpu_pods_per_card) == (0, 0)


@pytest.mark.parametrize(
    ("mode", "may_evict"), [(None, False), ("never", False), ("dry-run", False), ("evict", True)]
)
def test_only_an_extender_that_makes_room_may_evict_pods(mode: str | None, *, may_evict: bool) -> None:
    found = made(extender={"makeRoom": mode} if mode else {})
    rules = pick(found, "ClusterRole", EXTENDER_NAME)["rules"]
    allowed = [rule["verbs"] for rule in rules if "pods/eviction" in rule["resources"]]
    assert allowed == ([["create"]] if may_evict else [])


@pytest.mark.parametrize(
    ("extender", "flags"),
    [
        ({}, []),
        ({"shortlist": 50}, ["--shortlist=50"]),
        (sidecar(), ["--shortlist=100"]),
        (sidecar(shortlist=0), ["--shortlist=0"]),
        (sidecar(shortlist=7), ["--shortlist=7"]),
        (sidecar(placement="replay"), []),
    ],
)
def test_a_scheduler_without_other_extenders_gets_the_best_nodes_only(
    extender: dict[str, Any], flags: list[str]
) -> None:
    containers = pod(pick(made(extender=extender), "Deployment"))["containers"]
    command = next(each["command"] for each in containers if "gpushare" in each["command"])
    assert [each for each in command if each.startswith("--shortlist")] == flags


def test_the_agent_parses_its_arguments_and_its_paths_are_mounted() -> None:
    pool = {"memoryUnit": "MiB", "deviceListStrategy": "cdi"}
    spec = pod(pick(made(pools=[pool]), "DaemonSet"))
    container = spec["containers"][0]
    assert container["command"][0] == "gpushare-device-plugin-v2"
    assert spec["hostPID"] is True
    settings = settings_in(container, AgentSettings)
    assert (settings.memory_unit, settings.device_list_strategy) == (
        MemoryUnit.MIB,
        DeviceListChoice.CDI,
    )
    assert settings.ops_port == 12347
    mounts = {each["mountPath"]: each.get("readOnly", False) for each in container["volumeMounts"]}
    assert mounts[str(settings.device_plugin_folder)] is False
    assert mounts[str(settings.cgroup_root)] is True
    assert mounts[str(settings.pod_resources_socket.parent)] is True
    assert settings.state.is_relative_to(settings.device_plugin_folder)
    assert all(mounts[str(folder)] for folder in settings.cdi_folders)


def test_the_agent_reads_the_folders_of_cdi_that_its_nodes_have() -> None:
    spec = pod(pick(made(pools=[{"cdiFolders": ["/var/cdi/static", "/var/cdi/dynamic"]}]), "DaemonSet"))
    settings = settings_in(spec["containers"][0], AgentSettings)
    assert settings.device_list_strategy is DeviceListChoice.AUTO
    assert settings.cdi_folders == (Path("/var/cdi/static"), Path("/var/cdi/dynamic"))
    read_only = {each["mountPath"] for each in spec["containers"][0]["volumeMounts"] if each.get("readOnly")}
    assert {"/var/cdi/static", "/var/cdi/dynamic"} <= read_only
    assert {"/var/cdi/static", "/var/cdi/dynamic"} <= {
        each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each
    }


@pytest.mark.parametrize("strategy", ["volume-mounts", "envvar"])
def test_an_agent_without_cdi_mounts_no_folder_of_it(strategy: str) -> None:
    spec = pod(pick(made(pools=[{"deviceListStrategy": strategy}]), "DaemonSet"))
    assert not [each["name"] for each in spec["volumes"] if each["name"].startswith("cdi-")]
    assert not [flag for flag in spec["containers"][0]["command"] if flag.startswith("--cdi-folder")]


def test_what_reads_gpus_requests_them_with_and_without_accepted_mounts() -> None:
    """NVIDIA's runtime takes mounts first, and the variable if it accepts no mounts."""
    agent = pod(pick(made(), "DaemonSet"))["containers"][0]
    (exporter,) = pod(exporter_of(made(monitoring=MONITORING)))["containers"]
    for each in (agent, exporter):
        assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in each["env"]
        assert "/var/run/nvidia-container-devices/all" in {
            mount["mountPath"] for mount in each["volumeMounts"]
        }


def test_the_exporter_parses_its_arguments_and_its_paths_are_mounted() -> None:
    spec = pod(exporter_of(made(monitoring={"exporter": {**MONITORING["exporter"], "intervalSeconds": 30}})))
    (container,) = spec["containers"]
    settings = settings_in(container, ExporterSettings)
    assert (settings.interval_seconds, settings.ops_port) == (30, container["ports"][0]["containerPort"])
    mounts = {each["mountPath"]: each.get("readOnly", False) for each in container["volumeMounts"]}
    assert mounts == {
        str(settings.pod_resources_socket.parent): True,
        str(settings.isolation_state): True,
        "/var/run/nvidia-container-devices/all": True,
    }
    assert spec["hostPID"] is True


def test_the_exporter_runs_on_nodes_with_any_of_the_labels() -> None:
    labels = ["pool=a", "example.com/card"]
    found = exporter_of(made(monitoring={"exporter": {**MONITORING["exporter"], "nodeLabels": labels}}))
    affinity = pod(found)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert affinity["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]},
        {"matchExpressions": [{"key": "example.com/card", "operator": "Exists"}]},
    ]


@pytest.mark.parametrize(("state", "verb"), [("present", "install"), ("absent", "uninstall")])
def test_the_library_installer_parses_its_arguments_and_its_paths_are_mounted(state: str, verb: str) -> None:
    objects = made(isolation={"image": DIGEST, "state": state, "kubeletRoot": "/data/kubelet/"})
    spec = pod(pick(objects, "DaemonSet", "cgpu-installer"))
    (container,) = spec["containers"]
    assert container["command"][:3] == ["gpushare", "isolation", verb]
    assert "--wait" in container["command"]
    settings = settings_in(container, InstallerSettings)
    assert settings.ops_port == container["ports"][0]["containerPort"]
    mounts = {each["mountPath"]: each.get("readOnly", False) for each in container["volumeMounts"]}
    assert mounts == {str(settings.folder): False, "/var/lib/kubelet/device-plugins": True}
    assert settings.record.is_relative_to("/var/lib/kubelet/device-plugins")
    paths = [each["hostPath"]["path"] for each in spec["volumes"]]
    assert paths == [str(settings.folder), "/data/kubelet/device-plugins"]
    assert spec["automountServiceAccountToken"] is False


def test_installer_and_agents_use_one_folder_of_the_library() -> None:
    folder = "/home/kubernetes/bin/gpushare"
    pools = [{"name": name, "nodeSelector": {"cgpu": "true", "pool": name}} for name in ("a", "b")]
    objects = made(pools=pools, isolation={"image": DIGEST, "folder": folder})
    installer = pod(pick(objects, "DaemonSet", "cgpu-installer"))
    assert str(settings_in(installer["containers"][0], InstallerSettings).folder) == folder
    assert mounts_of(installer, folder) == [(folder, False)]
    for name in ("gpushare-device-plugin-ds-a", "gpushare-device-plugin-ds-b"):
        agent = pod(pick(objects, "DaemonSet", name))
        assert str(settings_in(agent["containers"][0], AgentSettings).isolation_libraries) == folder
        assert mounts_of(agent, folder) == [(folder, True)]


def mounts_of(spec: Object, folder: str) -> list[tuple[str, bool]]:
    """Where the container has a folder of the node, and whether it is read-only there."""
    names = [each["name"] for each in spec["volumes"] if each.get("hostPath", {}).get("path") == folder]
    mounts = spec["containers"][0]["volumeMounts"]
    return [(each["mountPath"], each.get("readOnly", False)) for each in mounts if each["name"] in names]


def test_by_default_the_folder_of_the_library_is_the_one_of_the_programs() -> None:
    objects = made(isolation={"image": DIGEST})
    (container,) = pod(pick(objects, "DaemonSet", "cgpu-installer"))["containers"]
    assert settings_in(container, InstallerSettings).folder == InstallerSettings().folder
    assert InstallerSettings().folder == AgentSettings().isolation_libraries


def test_an_agent_whose_nodes_limit_nothing_needs_no_folder_of_the_library() -> None:
    spec = pod(pick(made(pools=[{}]), "DaemonSet", "gpushare-device-plugin-ds"))
    names = [each["name"] for each in spec["volumes"]]
    assert names == ["device-plugin", "pod-resources", "cgroups", "mps", "all-cards", "cdi-0", "cdi-1"]
    paths = [each.get("hostPath", {}).get("path", "") for each in spec["volumes"]]
    assert not [path for path in paths if path.startswith(("/usr", "/var/lib/gpushare", "/run/gpushare/"))]
    assert "--isolation-libraries" not in str(spec["containers"])


def test_the_library_is_installed_on_every_node_with_enforcement() -> None:
    labels = pod(pick(made(isolation={"image": DIGEST}), "DaemonSet", "cgpu-installer"))["affinity"][
        "nodeAffinity"
    ]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    found = [
        mode_of({expression["key"]: value})[0]
        for term in labels
        for expression in term["matchExpressions"]
        for value in expression["values"]
    ]
    assert found == [Mode.CGPU, Mode.CGPU, Mode.CORE_MEM, Mode.MPS]
    assert set(found) == LIMITING


def test_the_mps_daemon_parses_its_arguments_and_its_paths_are_mounted() -> None:
    objects = made(mps={"image": DIGEST, "runtimeClass": "nvidia"})
    daemon_set = pick(objects, "DaemonSet", "gpushare-mps")
    spec = pod(daemon_set)
    (container,) = spec["containers"]
    assert container["command"] == ["gpushare", "mps"]
    settings = settings_in(container, MpsSettings)
    assert settings.ops_port == container["ports"][0]["containerPort"]
    paths = {each["name"]: each["hostPath"]["path"] for each in spec["volumes"]}
    mounts = {each["mountPath"]: paths[each["name"]] for each in container["volumeMounts"]}
    folders = MpsDirs()
    assert mounts[str(settings.state)] == str(folders.state)
    assert mounts[str(settings.shm)] == str(folders.shm)
    assert (spec["hostPID"], spec["runtimeClassName"]) == (True, "nvidia")
    assert spec["automountServiceAccountToken"] is False


def test_updates_and_slow_probes_do_not_restart_the_mps_daemon() -> None:
    daemon_set = pick(made(mps={"image": DIGEST}), "DaemonSet", "gpushare-mps")
    assert daemon_set["spec"]["updateStrategy"] == {"type": "OnDelete"}
    (container,) = pod(daemon_set)["containers"]
    probe = container["livenessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 300


def test_the_mps_daemon_runs_on_the_nodes_of_its_agents() -> None:
    selector = {"ack.node.gpu.schedule": "mps"}
    objects = made(mps={"image": DIGEST}, isolation={"image": DIGEST}, pools=[{"nodeSelector": selector}])
    spec = pod(pick(objects, "DaemonSet", "gpushare-mps"))
    ((term,),) = [
        each["matchExpressions"]
        for each in spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
    ]
    assert (term["key"], term["values"]) == ("ack.node.gpu.schedule", ["mps"])
    agent = pod(pick(objects, "DaemonSet", "gpushare-device-plugin-ds"))
    volumes = {each["name"]: each["hostPath"]["path"] for each in agent["volumes"]}
    assert volumes["mps"] == str(MpsDirs().state)


def test_the_metrics_api_parses_its_arguments_and_its_apiservices_lead_to_it() -> None:
    api = {**MONITORING["metricsApi"], "customMetrics": True}
    objects = made(monitoring={**MONITORING, "metricsApi": api})
    spec = pod(pick(objects, "Deployment", "gpushare-metrics-api"))
    (container,) = spec["containers"]
    settings = settings_in(container, MetricsApiSettings)
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"https": settings.port, "ops": settings.ops_port}
    (mount,) = container["volumeMounts"]
    assert {settings.tls_cert, settings.tls_key} == {
        f"{mount['mountPath']}/tls.crt",
        f"{mount['mountPath']}/tls.key",
    }
    (port,) = pick(objects, "Service", "gpushare-metrics-api")["spec"]["ports"]
    assert port["targetPort"] == settings.port
    services = [each["spec"] for each in objects if each["kind"] == "APIService"]
    assert {each["service"]["port"] for each in services} == {port["port"]}
    metrics = [each for each in services if each["group"] == "custom.metrics.k8s.io"]
    assert max(metrics, key=lambda each: each["versionPriority"])["version"] == "v1beta2"


@pytest.mark.parametrize(
    ("serves_metrics", "groups"),
    [(True, {"custom.metrics.k8s.io", "usage.gpushare.io"}), (False, {"usage.gpushare.io"})],
)
def test_the_usage_api_is_served_beside_prometheus_adapter_too(
    *, serves_metrics: bool, groups: set[str]
) -> None:
    api = {**MONITORING["metricsApi"], "customMetrics": serves_metrics}
    objects = made(
        monitoring={**MONITORING, "metricsApi": api, "adapterRules": not serves_metrics},
    )
    assert {each["spec"]["group"] for each in objects if each["kind"] == "APIService"} == groups


def test_a_job_makes_the_certificate_of_the_metrics_api_and_writes_its_ca_to_its_apiservices() -> None:
    name, api = "gpushare-metrics-certificates", {"image": DIGEST, "certificatesImage": DIGEST}
    objects = made(monitoring={**MONITORING, "metricsApi": {**api, "customMetrics": True}})
    services = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "APIService"}
    assert not any("caBundle" in each for each in services.values())
    rules = pick(objects, "ClusterRole", name)["rules"]
    assert [(each["resources"], each["verbs"]) for each in rules] == [(["apiservices"], ["get", "patch"])]
    assert set(rules[0]["resourceNames"]) == set(services)
    cron = pick(objects, "CronJob", name)
    (container,) = template(cron)["spec"]["containers"]
    assert container["command"][2:] == [f"--api-service={each}" for each in rules[0]["resourceNames"]]
    (volume,) = pod(pick(objects, "Deployment", "gpushare-metrics-api"))["volumes"]
    (filled,) = pick(objects, "Role", name)["rules"]
    assert filled["resourceNames"] == ["gpushare-metrics-api-authority", volume["secret"]["secretName"]]


def test_the_usage_api_is_deployed_by_default_and_survives_the_loss_of_a_pod() -> None:
    api = {"image": DIGEST, "certificatesImage": DIGEST}
    objects = made(monitoring={"exporter": {"image": DIGEST}, "metricsApi": api})
    assert pick(objects, "APIService")["metadata"]["name"] == "v1.usage.gpushare.io"
    assert pick(objects, "Deployment", "gpushare-metrics-api")["spec"]["replicas"] == 2
    assert pick(objects, "PodDisruptionBudget", "gpushare-metrics-api")["spec"]["maxUnavailable"] == 1


def test_the_job_of_the_metrics_api_comes_after_its_apiservices_and_goes_before_them() -> None:
    api = {"image": DIGEST, "certificatesImage": DIGEST}
    objects = made(monitoring={"exporter": {"image": DIGEST}, "metricsApi": api})
    kinds = [each["kind"] for each in objects]
    last = max(position for position, kind in enumerate(kinds) if kind == "Job")
    assert kinds.index("APIService") < last


def test_whoever_may_view_a_namespace_may_read_its_usage() -> None:
    role = pick(made(monitoring=MONITORING), "ClusterRole", "gpushare-usage-reader")
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert {each["apiGroups"][0] for each in role["rules"]} == {"usage.gpushare.io"}
    assert {verb for each in role["rules"] for verb in each["verbs"]} == {"get", "list"}


def test_the_board_parses_its_arguments_and_its_probes_and_service_use_its_ports() -> None:
    board = {"image": DIGEST, "tlsSecret": "browsers"}
    objects = made(monitoring={"exporter": {"image": DIGEST}, "board": board})
    deployment = pick(objects, "Deployment", "gpushare-board")
    # Each one would remember another hour.
    assert deployment["spec"]["replicas"] == 1
    (container,) = pod(deployment)["containers"]
    settings = settings_in(container, BoardSettings)
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"https": settings.port, "ops": settings.ops_port}
    (mount,) = container["volumeMounts"]
    assert settings.tls_cert == f"{mount['mountPath']}/tls.crt"
    assert settings.tls_key == f"{mount['mountPath']}/tls.key"
    probes = [container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {each["port"] for each in probes} == {"ops"}
    (port,) = pick(objects, "Service", "gpushare-board")["spec"]["ports"]
    assert port["targetPort"] == settings.port


def test_prometheus_finds_every_daemon_by_one_label_and_one_port_name() -> None:
    objects = made(monitoring={**MONITORING, "operator": True}, isolation={"image": DIGEST})
    monitor = pick(objects, "PodMonitor")["spec"]
    (endpoint,) = monitor["podMetricsEndpoints"]
    (job,) = yaml.safe_load((FILES / "scrape.yaml").read_text())["scrape_configs"]
    port, node = job["relabel_configs"]
    assert port["regex"] == endpoint["port"]
    (relabeling,) = endpoint["relabelings"]
    assert (node["source_labels"], node["target_label"]) == (
        relabeling["sourceLabels"],
        relabeling["targetLabel"],
    )
    (discovery,) = job["kubernetes_sd_configs"]
    (selector,) = discovery["selectors"]
    assert [selector["label"]] == [
        f"{key}={value}" for key, value in monitor["selector"]["matchLabels"].items()
    ]
    assert discovery["namespaces"]["names"] == monitor["namespaceSelector"]["matchNames"]
    assert (job["honor_labels"], endpoint["honorLabels"]) == (True, True)
    scraped = [
        each["metadata"]["name"]
        for each in objects
        if monitor["selector"]["matchLabels"].items() <= pod_labels(each).items()
        and any(port["name"] == endpoint["port"] for port in pod(each)["containers"][0].get("ports", ()))
    ]
    assert scraped == [
        "gpushare-schd-extender",
        "gpushare-device-plugin-ds",
        "cgpu-installer",
        "gpushare-exporter",
        "gpushare-metrics-api",
    ]


def pod_labels(workload: Object) -> Object:
    found: Object = template(workload).get("metadata", {}).get("labels", {})
    return found


def test_rules_and_dashboards_are_the_files_byte_for_byte() -> None:
    objects = made(monitoring={"exporter": {"image": DIGEST}, "adapterRules": True})
    data = {
        name: text for each in objects if each["kind"] == "ConfigMap" for name, text in each["data"].items()
    }
    files = {path.name: path.read_text() for path in FILES.rglob("*.*") if path.is_file()}
    assert data == files


def test_the_operators_rules_are_the_groups_of_the_files() -> None:
    (rule,) = [
        each for each in made(monitoring={**MONITORING, "operator": True}) if each["kind"] == "PrometheusRule"
    ]
    groups = [
        group
        for name in ("rules.yaml", "alerts.yaml")
        for group in yaml.safe_load((FILES / name).read_text())["groups"]
    ]
    assert rule["spec"] == {"groups": groups}


def test_the_agent_gets_all_gpus_by_a_mount() -> None:
    spec = pod(pick(made(pools=[{"runtimeClass": "nvidia"}]), "DaemonSet"))
    (mount,) = [each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "all-cards"]
    (volume,) = [each for each in spec["volumes"] if each["name"] == "all-cards"]
    assert mount["mountPath"] == "/var/run/nvidia-container-devices/all"
    assert volume["hostPath"]["path"] == "/dev/null"
    assert spec["runtimeClassName"] == "nvidia"


def test_agent_and_exporter_find_nvml_below_the_root_folder_of_the_driver() -> None:
    root = "/run/nvidia/driver"
    exporter = {"exporter": {"image": DIGEST, "driverRoot": root}}
    objects = made(pools=[{"driverRoot": root}], monitoring=exporter)
    agent = pick(objects, "DaemonSet", "gpushare-device-plugin-ds")
    for spec in (pod(agent), pod(exporter_of(objects))):
        (container,) = spec["containers"]
        assert f"--driver-root={root}" in container["command"]
        (mount,) = [each for each in container["volumeMounts"] if each["mountPath"] == root]
        # The driver container mounts its files there after the start of the pod.
        assert (mount["mountPropagation"], mount["readOnly"]) == ("HostToContainer", True)
        (volume,) = [each for each in spec["volumes"] if each["name"] == mount["name"]]
        assert volume["hostPath"]["path"] == root
        assert "privileged" not in container["securityContext"]


def test_a_custom_kubelet_directory_is_mounted_at_the_path_of_the_agent() -> None:
    spec = pod(pick(made(pools=[{"kubeletRoot": "/data/kubelet/"}]), "DaemonSet"))
    paths = [each["hostPath"]["path"] for each in spec["volumes"]]
    assert paths[:2] == ["/data/kubelet/device-plugins", "/data/kubelet/pod-resources"]
    assert spec["containers"][0]["volumeMounts"][0]["mountPath"] == "/var/lib/kubelet/device-plugins"


def test_a_kubeconfig_on_the_node_is_mounted_if_configured() -> None:
    path = "/etc/kubernetes/kubelet.kubeconfig"
    spec = pod(pick(made(pools=[{"kubeconfig": path}]), "DaemonSet"))
    (mount,) = [each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "kubeconfig"]
    assert {"name": "KUBECONFIG", "value": mount["mountPath"]} in spec["containers"][0]["env"]
    assert {"name": "kubeconfig", "hostPath": {"path": path, "type": "File"}} in spec["volumes"]


def test_node_pools_share_one_role_and_have_a_daemonset_each() -> None:
    names = ("a", "b")
    pools = [{"name": name, "nodeSelector": {"gpushare": "true", "pool": name}} for name in names]
    objects = made(pools=pools)
    sets = [each["metadata"]["name"] for each in objects if each["kind"] == "DaemonSet"]
    assert sets == ["gpushare-device-plugin-ds-a", "gpushare-device-plugin-ds-b"]
    assert pick(objects, "ServiceAccount", "gpushare-device-plugin")


@pytest.mark.parametrize(("version", "flags"), [("1.20", ["--api-request-timeout=60"]), ("1.21", [])])
def test_in_clusters_before_1_21_a_bind_can_be_late_by_a_minute(version: str, flags: list[str]) -> None:
    deployment = pick(made(kubernetesVersion=version), "Deployment", "gpushare-schd-extender")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert [flag for flag in container["command"] if "request-timeout" in flag] == flags


def test_without_pools_there_are_no_objects_of_the_agent() -> None:
    assert "gpushare-device-plugin" not in str(made(pools=[], admission=False))


COUNTED = {"aliyun.accelerator/nvidia_count": "1"}
POOLS: tuple[dict[str, str], ...] = (
    {"gpushare": "true"},
    {"cgpu": "true", "pool": "a"},
    {"ack.node.gpu.schedule": "core_mem"},
)
NODE_LABELS = [
    {key: value for key, value in {**dict(zip(MODE_LABELS, values, strict=True)), **more}.items() if value}
    for values in product(
        ("", "true", "false"), ("", "true", "false"), ("", "share", "core_mem", "default", "topology", "odd")
    )
    for more in ({}, {"pool": "a"}, COUNTED, {"pool": "a", **COUNTED})
]


@pytest.mark.parametrize("selector", POOLS, ids=str)
def test_a_node_of_a_pool_has_the_agent_or_gets_nvidias_plugin_back(selector: dict[str, str]) -> None:
    objects = made(pools=[{"nodeSelector": selector, "evictRecover": True}], isolation={"image": DIGEST})
    agent, evict, recover = (
        pod(pick(objects, "DaemonSet", name))
        for name in ("gpushare-device-plugin-ds", "device-plugin-evict-ds", "device-plugin-recover-ds")
    )
    rest = {label: value for label, value in selector.items() if label not in MODE_LABELS}
    for labels in NODE_LABELS:
        _, closed = mode_of(labels)
        says_so = labels.get("ack.node.gpu.schedule") == "odd"  # the agent reports an unknown mode
        on_node = [selects(each, labels) for each in (agent, evict, recover)]
        if selects(agent, labels):
            assert on_node == [True, True, False], labels
            assert selector.items() <= labels.items()
            assert closed is None or says_so, labels
        elif selector.items() <= labels.items():
            assert closed, labels
            assert says_so or selects(recover, labels), labels
        elif rest.items() <= labels.items() and not any(label in labels for label in MODE_LABELS):
            assert selects(recover, labels) == (COUNTED.items() <= labels.items())
        if selects(recover, labels):
            assert rest.items() <= labels.items()
            # No agent of another pool shares the GPUs.
            unlabelled = not any(labels.get(key) in ("true", "share", "core_mem") for key in MODE_LABELS)
            assert closed or unlabelled, labels


def selects(spec: Object, labels: dict[str, str]) -> bool:
    """Whether a pod may run on a node with these labels."""
    if not spec.get("nodeSelector", {}).items() <= labels.items():
        return False
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return any(
        all(holds(each, labels) for each in term["matchExpressions"])
        for term in required["nodeSelectorTerms"]
    )


def holds(expression: Object, labels: dict[str, str]) -> bool:
    value, operator = labels.get(expression["key"]), expression["operator"]
    if operator == "Exists":
        return value is not None
    return bool((value in expression["values"]) == (operator == "In"))


@pytest.mark.parametrize("verb", ["evict", "recover"])
def test_evict_and_recover_run_a_command_that_exists_on_the_folders_that_are_mounted(verb: str) -> None:
    objects = made(pools=[{"evictRecover": True}])
    spec = pod(pick(objects, "DaemonSet", f"device-plugin-{verb}-ds"))
    (container,) = spec["containers"]
    assert container["command"][:4] == ["gpushare", "node-mode", verb, "--wait"]
    with node_mode.commands[verb].make_context(verb, container["command"][3:]) as context:
        read = {"evict": [], "recover": ["device_plugins", "pod_resources", "cgroups"]}[verb]
        folders = [context.params[name] for name in ("manifests", "backup", *read)]
    mounted = [Path(each["mountPath"]) for each in container["volumeMounts"]]
    assert [path.parent if path.suffix else path for path in folders] == mounted
    assert [each["name"] for each in container["volumeMounts"]] == [each["name"] for each in spec["volumes"]]
    assert spec["automountServiceAccountToken"] is False


def test_a_tenant_is_a_namespace_with_a_quota_and_an_optional_priority() -> None:
    objects = made(tenants=[{"name": "a", "gpuMem": 32, "priority": 7}, {"name": "b", "gpuMem": 0}])
    quotas = {
        each["metadata"]["namespace"]: each["spec"]["hard"]
        for each in objects
        if each["kind"] == "ResourceQuota"
    }
    assert quotas == {"a": {"requests.aliyun.com/gpu-mem": "32"}, "b": {"requests.aliyun.com/gpu-mem": "0"}}
    assert pick(objects, "PriorityClass")["value"] == 7


def installer(**settings: Any) -> Object:
    return pick(made(installer={"image": DIGEST, **settings}), "Job", "gpushare-installer")


def test_the_installer_runs_one_pod_per_control_plane_node() -> None:
    job = installer(controlPlanes=3)
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (3, 3)
    affinity = pod(job)["affinity"]
    (term,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == job["spec"]["template"]["metadata"]["labels"]
    (container,) = pod(job)["containers"]
    assert "--control-planes=3" in container["command"]
    names = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in container["env"]}
    assert names == {"HOST_IP": "status.hostIP", "POD_NAME": "metadata.name"}


def test_the_installer_uses_pids_and_network_of_the_host_and_restarts_on_failure() -> None:
    spec = pod(installer())
    assert (spec["hostNetwork"], spec["hostPID"], spec["restartPolicy"]) == (True, True, "OnFailure")


def test_the_installer_copies_the_certificate_of_the_scheduler_to_its_node() -> None:
    def job(**settings: Any) -> Object:
        objects = made(installer={"image": DIGEST, **settings})
        return pod(pick(objects, "Job", "gpushare-installer"))

    (volume,) = [each for each in job()["volumes"] if each["name"] == "certificates"]
    assert volume["secret"]["secretName"] == "gpushare-scheduler-client-tls"
    (container,) = job()["containers"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "certificates"]
    assert f"--certificates={mount['mountPath']}" in container["command"]
    assert "certificates" not in str(job(state="absent"))
    plain = made(extender={"tls": "none"}, installer={"image": DIGEST})
    assert "certificates" not in str(pod(pick(plain, "Job")))


def test_the_installer_may_list_pods_and_write_events_and_nothing_else() -> None:
    objects = made(installer={"image": DIGEST})
    rights = [each for each in objects if each["metadata"]["name"] == "gpushare-installer"]
    assert {each["kind"] for each in rights} == {"ServiceAccount", "Role", "RoleBinding", "Job"}
    rules = pick(rights, "Role")["rules"]
    assert [(each["resources"], each["verbs"]) for each in rules] == [
        (["pods"], ["list"]),
        (["events"], ["create"]),
    ]


def test_a_terminated_installer_has_time_to_restore() -> None:
    spec = pod(installer())
    words = spec["containers"][0]["command"][3:]
    flags = scheduler_manifest.commands["install"].make_context("install", words).params
    assert spec["terminationGracePeriodSeconds"] > flags["wait"] + flags["settle"]


@pytest.mark.parametrize(
    ("settings", "verb", "url"),
    [
        ({}, "install", "https://10.0.0.1:32766/gpushare-scheduler"),
        ({"url": "https://e:1/gpushare-scheduler"}, "install", "https://e:1/gpushare-scheduler"),
        ({"state": "absent"}, "restore", None),
    ],
)
def test_the_installer_parses_its_arguments_and_edits_a_mounted_directory(
    tmp_path: Path, settings: Object, verb: str, url: str | None
) -> None:
    manifest = tmp_path / "etc/kubernetes/manifests/kube-scheduler.yaml"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(kubeadm.scheduler("1.36"))
    spec = pod(installer(**settings))
    (container,) = spec["containers"]
    assert container["command"][:3] == ["gpushare", "scheduler-manifest", verb]
    paths = {each["name"]: each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each}
    mounts = {each["mountPath"]: paths.get(each["name"]) for each in container["volumeMounts"]}
    assert mounts.pop("/certificates", None) is None
    assert mounts == {f"/host{path}": path for path in ("/etc/kubernetes", "/var/log/pods")}
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (tmp_path / name).write_text(name)
    given = {
        "--root=/host": f"--root={tmp_path}",
        "--certificates=/certificates": f"--certificates={tmp_path}",
    }
    flags = [given.get(each, each).replace("$(HOST_IP)", "10.0.0.1") for each in container["command"][3:]]
    result = CliRunner().invoke(scheduler_manifest, [verb, *flags, "--dry-run"], catch_exceptions=False)
    assert re.findall(r'urlPrefix": "(.*)"', result.output) == ([url] if url else [])


def test_the_nodes_of_a_pool_get_labels_placement_and_taints() -> None:
    pool = {
        "nodes": ["a", "b"],
        "labels": {"gpushare": "true"},
        "placement": "spread",
        "taints": ["k=v:NoSchedule", "e:NoExecute"],
    }
    nodes = [each for each in made(nodePools=[pool]) if each["kind"] == "Node"]
    assert [each["metadata"]["name"] for each in nodes] == ["a", "b"]
    assert nodes[0]["metadata"]["labels"] == {"gpushare": "true", "ack.node.gpu.placement": "spread"}
    assert nodes[0]["spec"]["taints"] == [
        {"key": "k", "value": "v", "effect": "NoSchedule"},
        {"key": "e", "effect": "NoExecute"},
    ]


def test_a_pool_without_taints_does_not_change_taints() -> None:
    assert "spec" not in pick(made(nodePools=[{"nodes": ["a"], "labels": {"gpushare": "true"}}]), "Node")


@pytest.mark.parametrize(
    ("image", "there"),
    [
        ("registry.k8s.io/kube-scheduler:v1", "m.example.com/x/kube-scheduler:v1"),
        ("a:5000/b/c@sha256:0", "m.example.com/x/b/c@sha256:0"),
        ("localhost/c:v1", "m.example.com/x/c:v1"),
        ("library/busybox:1", "m.example.com/x/library/busybox:1"),
        ("busybox:1", "m.example.com/x/busybox:1"),
    ],
)
def test_a_mirror_replaces_the_host_of_the_registry(image: str, there: str) -> None:
    assert mirrored(image, "m.example.com/x") == there
    assert mirrored(image, "") == image


def test_every_pod_pulls_from_the_mirror_with_the_secrets() -> None:
    top = {"registry": "m.example.com", "imagePullSecrets": ["one", "two"]}
    local = made(pools=[{"evictRecover": True}], **top)
    workloads = [each for each in local if template(each)]
    assert {each["kind"] for each in workloads} == {"Deployment", "DaemonSet", "Job", "CronJob"}
    for each in workloads:
        assert pod(each)["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
        assert all(one["image"].startswith("m.example.com/") for one in pod(each)["containers"])
    assert "imagePullSecrets" not in str(made())


@pytest.mark.parametrize("more", [{}, {"operator": True}])
def test_alerts_link_to_the_runbooks_that_the_stack_names(more: dict[str, Any]) -> None:
    own = {**MONITORING, **more, "runbooks": "https://docs.example.org/runbooks"}
    text = str([each for each in made(monitoring=own) if each["kind"] in ("ConfigMap", "PrometheusRule")])
    assert "https://docs.example.org/runbooks#gpushareextenderdown" in text


def test_alerts_of_a_stack_without_that_page_name_only_the_command() -> None:
    text = str(made(monitoring=MONITORING))
    assert "runbook: kubectl gpushare runbook GpuShareExtenderDown" in text
    assert "runbook_url" not in text


def test_the_job_of_the_certificates_has_another_name_for_each_content() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"registry": "m.example.com"},
        {"imagePullSecrets": ["one"]},
        {"labels": {"team": "a"}},
    ]
    names = [each["metadata"]["name"] for top in changes for each in made(**top) if each["kind"] == "Job"]
    assert len(set(names)) == len(changes)


def test_the_images_in_use_are_returned_by_workload_and_container() -> None:
    images = used(made(extender=sidecar()))
    assert set(images) == {
        "gpushare-schd-extender/gpushare-schd-extender",
        "gpushare-schd-extender/kube-scheduler",
        "gpushare-device-plugin-ds/gpushare",
    }


def test_one_account_creates_and_fills_the_secrets_of_the_certificates_and_no_other_ones() -> None:
    objects = made()
    names = ["gpushare-certificate-authority", "gpushare-schd-extender-tls", "gpushare-scheduler-client-tls"]
    verbs = ["get", "patch", "create"]
    rights = pick(objects, "Role", "gpushare-certificates")["rules"]
    assert rights == [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": names, "verbs": verbs}]
    assert pod(pick(objects, "Job"))["serviceAccountName"] == "gpushare-certificates"


def test_certificates_are_made_at_once_and_renewed_every_day() -> None:
    objects = made()
    job, cron = pick(objects, "Job"), pick(objects, "CronJob")
    assert cron["spec"]["jobTemplate"]["spec"] == job["spec"]
    assert cron["spec"]["schedule"] == "17 3 * * *"
    (container,) = pod(job)["containers"]
    assert container["command"] == ["gpushare", "certificates"]
    assert (container["image"], cron["apiVersion"]) == (DIGEST, "batch/v1")
    upgraded = pick(made(extender={"certificatesImage": DIGEST.replace("0", "1")}), "Job")
    assert upgraded["metadata"]["name"] != job["metadata"]["name"]
    older = made(kubernetesVersion="1.20", admission=False)
    assert pick(older, "CronJob")["apiVersion"] == "batch/v1beta1"


def test_the_extender_starts_when_its_secret_has_all_files() -> None:
    deployment = pick(made(), "Deployment")
    (volume,) = pod(deployment)["volumes"]
    assert volume["secret"]["secretName"] == "gpushare-schd-extender-tls"
    assert {each["key"] for each in volume["secret"]["items"]} == {"tls.crt", "tls.key", "ca.crt"}


@pytest.mark.parametrize("extender", [{"tls": "none"}, {"tlsSecret": "theirs"}, sidecar()])
def test_without_certificates_of_the_stack_nothing_makes_them(extender: dict[str, Any]) -> None:
    assert not [each for each in made(extender=extender) if "certificate" in each["metadata"]["name"]]


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "https://127.0.0.1:32766/gpushare-scheduler"),
        ({"tlsSecret": "tls"}, "https://127.0.0.1:32766/gpushare-scheduler"),
        ({"tls": "none"}, "http://127.0.0.1:32766/gpushare-scheduler"),
        (
            {"exposure": "cluster-ip"},
            "https://gpushare-schd-extender.kube-system.svc:12345/gpushare-scheduler",
        ),
        (sidecar(), "http://127.0.0.1:12345/gpushare-scheduler"),
        (sidecar(replicas=2, tlsSecret="tls"), "http://127.0.0.1:12345/gpushare-scheduler"),
    ],
)
def test_the_url_of_the_extender_is_returned(settings: Object, url: str) -> None:
    assert extender.url(load(raw_stack(extender=settings)).extender) == url


@pytest.mark.parametrize(
    ("version", "changes", "names"),
    [
        ("1.36", {}, {"gpushare-allocations", "gpushare-agents", "gpushare-secrets", "gpushare-requests"}),
        (
            "1.30",
            {"tenants": [{"name": "team-a", "gpuMem": 8}]},
            {
                "gpushare-allocations",
                "gpushare-agents",
                "gpushare-secrets",
                "gpushare-requests",
                "gpushare-tenants",
                "gpushare-tenants-variables",
            },
        ),
        ("1.29", {}, set()),
        ("1.36", {"admission": False}, set()),
    ],
)
def test_admission_policies_need_a_current_cluster_and_tenants(
    version: str, changes: dict[str, Any], names: set[str]
) -> None:
    objects = made(kubernetesVersion=version, **changes)
    policies = {each["metadata"]["name"] for each in objects if each["kind"] == "ValidatingAdmissionPolicy"}
    assert policies == names


def test_the_policy_for_tenants_selects_their_namespaces_by_name() -> None:
    """A tenant may be able to change the labels of its namespace."""
    objects = made(tenants=[{"name": "team-a", "gpuMem": 8}, {"name": "team-b", "gpuMem": 8}])
    spec = pick(objects, "ValidatingAdmissionPolicyBinding", "gpushare-tenants")["spec"]
    (term,) = spec["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert (term["key"], term["values"]) == ("kubernetes.io/metadata.name", ["team-a", "team-b"])


def granted(objects: Iterable[Object], kind: str, name: str) -> set[tuple[str, str]]:
    """Resource and verb of each right in a role."""
    rules = pick(objects, kind, name)["rules"]
    return {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


@pytest.mark.parametrize(
    ("version", "right"), [("1.32", ("nodes/proxy", "get")), ("1.33", ("nodes/pods", "get"))]
)
def test_agents_that_query_kubelets_have_the_right_to_pods_from_1_33_on(
    version: str, right: tuple[str, str]
) -> None:
    plain = made(kubernetesVersion=version)
    asking = made(kubernetesVersion=version, pools=[{"queryKubelet": True}])
    name = "gpushare-device-plugin"
    assert granted(asking, "ClusterRole", name) - granted(plain, "ClusterRole", name) == {right}
    commands = [
        pod(pick(each, "DaemonSet", f"{name}-ds"))["containers"][0]["command"] for each in (plain, asking)
    ]
    assert ["--query-kubelet" in each for each in commands] == [False, True]


def test_agents_may_patch_nodes_only_where_a_pool_starts_with_a_taint() -> None:
    plain, starting = made(), made(pools=[{"startupTaint": True}])
    rights = [granted(each, "ClusterRole", "gpushare-device-plugin") for each in (plain, starting)]
    assert rights[1] - rights[0] == {("nodes", "patch")}


def test_no_account_may_create_secrets_or_write_to_objects_of_others() -> None:
    """Kinds in which an object of another component could be changed: all rights there name the object."""
    for each in from_stack("everything"):
        for rule in each.get("rules", ()):
            if {"secrets", "leases"} & set(rule["resources"]):
                assert rule.get("resourceNames") or rule == LEASE_CREATION, each["metadata"]["name"]
            assert not {"update", "delete", "*"} & set(rule["verbs"]) or rule["resources"] == ["leases"]


LEASE_CREATION = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}


def from_stack(name: str) -> list[Object]:
    return everything(load(from_file(STACKS[name])))


@pytest.mark.parametrize("name", STACKS)
def test_secrets_are_made_by_the_programs_that_fill_them(name: str) -> None:
    """The engine would keep a private key in its state, and an update could overwrite it."""
    assert [each for each in from_stack(name) if each["kind"] == "Secret"] == []


@pytest.mark.parametrize(
    ("more", "url"),
    [
        ({}, ""),
        ({"prometheus": {"image": DIGEST}}, "http://gpushare-prometheus.kube-system:9090"),
        ({"board": {"prometheusUrl": "http://own:9090"}, "prometheus": {"image": DIGEST}}, "http://own:9090"),
    ],
)
def test_the_history_of_the_board_is_that_of_the_named_prometheus_or_of_the_stacks(
    more: Object, url: str
) -> None:
    board = {"image": DIGEST, "tlsSecret": "tls", **more.get("board", {})}
    objects = made(monitoring={"exporter": {"image": DIGEST}, **more, "board": board})
    (container,) = pod(pick(objects, "Deployment", "gpushare-board"))["containers"]
    assert settings_in(container, BoardSettings).prometheus_url == url
