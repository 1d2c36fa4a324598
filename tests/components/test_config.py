import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from components.config_extender import Exposure
from components.stack import from_engine, from_file, load
from gpushare.errors import ConfigError
from gpushare.model.options import DeviceListChoice, MemoryUnit
from tests.support.builders.stacks import DIGEST, STACKS, node_port, raw_stack, sidecar


def listed(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


def isolated(**isolation: Any) -> dict[str, Any]:
    return raw_stack(isolation={"image": DIGEST, **isolation})


@pytest.mark.parametrize("selector", [{"cgpu": "true"}, {"ack.node.gpu.schedule": "core_mem"}])
def test_agents_with_enforcement_need_the_library_on_their_nodes(selector: dict[str, str]) -> None:
    pools: list[dict[str, Any]] = [{"nodeSelector": selector}]
    assert error_of(raw_stack(pools=pools)) == (
        f"isolation: missing; devicePlugins[0].nodeSelector {listed(selector)} enforces limits; "
        "set it to {}, or also select nodes with cgpu.disable.isolation=true"
    )
    assert load(raw_stack(pools=pools, isolation={"image": DIGEST})).isolation
    unheld: list[dict[str, Any]] = [{"nodeSelector": {**selector, "cgpu.disable.isolation": "true"}}]
    assert not load(raw_stack(pools=unheld)).isolation


def test_agents_of_mode_mps_need_the_library_and_the_mps_daemon_on_their_nodes() -> None:
    pools: list[dict[str, Any]] = [{"nodeSelector": {"ack.node.gpu.schedule": "mps"}}]
    both = {"isolation": {"image": DIGEST}, "mps": {"image": DIGEST}}
    assert error_of(raw_stack(pools=pools, mps=both["mps"])).startswith("isolation: missing;")
    assert error_of(raw_stack(pools=pools, isolation=both["isolation"])) == (
        "mps: missing; devicePlugins[0].nodeSelector ack.node.gpu.schedule=mps shares GPUs with MPS; "
        "set it to {}"
    )
    assert load(raw_stack(pools=pools, **both)).mps


def monitored(**exporter: Any) -> dict[str, Any]:
    return raw_stack(monitoring={"exporter": {"image": DIGEST, **exporter}})


def with_board(**changes: Any) -> dict[str, Any]:
    board = {"image": DIGEST, "tlsSecret": "tls", **changes}
    return raw_stack(monitoring={"exporter": {"image": DIGEST}, "board": board})


def answered(*, adapterRules: bool = False, **changes: Any) -> dict[str, Any]:  # noqa: N803 - as in the file
    """With a metrics API."""
    api = {"image": DIGEST, "tlsSecret": "tls", "caBundle": "-----BEGIN CERTIFICATE-----", **changes}
    parts = {"exporter": {"image": DIGEST}, "metricsApi": api, "adapterRules": adapterRules}
    return raw_stack(monitoring=parts)


def error_of(raw: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as error:
        load(raw)
    return str(error.value)


def test_a_minimal_stack_needs_no_change_of_the_control_plane_and_limits_memory() -> None:
    images = {"extender": DIGEST, "device-plugin": DIGEST, "isolation": DIGEST}
    settings = load(
        {
            "kubernetesVersion": "1.36",
            "images": images,
            "extender": {},
            "devicePlugins": [{}],
            "isolation": {},
        }
    )
    assert (settings.extender.replicas, settings.extender.exposure) == (1, Exposure.SIDECAR)
    (pool,) = settings.device_plugins
    assert dict(pool.node_selector) == {"cgpu": "true"}
    assert (pool.memory_unit, pool.device_list_strategy) == (MemoryUnit.GIB, DeviceListChoice.AUTO)


@pytest.mark.parametrize("name", STACKS)
def test_the_stacks_are_valid(name: str) -> None:
    load(from_file(STACKS[name]))


def test_the_error_for_an_unknown_key_lists_the_known_keys() -> None:
    assert error_of(raw_stack(extendr={})).startswith(
        "extendr: unknown key; use one of kubernetesVersion, extender, devicePlugins, nodePools"
    )
    assert error_of(raw_stack(extender={"replica": 3})).startswith(
        "extender.replica: unknown key; use one of image"
    )
    assert error_of(raw_stack(pools=[{}, {"units": "GiB"}])).startswith("devicePlugins[1].units: unknown key")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"kubernetesVersion": "1.36"}, "extender: missing"),
        ({"kubernetesVersion": "1.36", "extender": {}}, "extender.image: missing"),
        ({"extender": {"image": DIGEST}}, "kubernetesVersion: missing"),
        (raw_stack(extender={"replicas": "3"}), "extender.replicas: '3' is not an integer"),
        (raw_stack(extender={"replicas": True}), "extender.replicas: true is not an integer"),
        (raw_stack(extender={"replicas": None}), "extender.replicas: null is not an integer"),
        (raw_stack(labels={"day": date(2026, 1, 2)}), 'labels.day: "2026-01-02" is not a string'),
        (raw_stack(extender={"lease": "no"}), "extender.lease: 'no' is not true or false"),
        (raw_stack(extender={"cpu": 1}), "extender.cpu: 1 is not a string; put it in quotes"),
        (raw_stack(kubernetesVersion=1.3), "kubernetesVersion: 1.3 is not a string; put it in quotes"),
        (raw_stack(kubernetesVersion="new"), "kubernetesVersion: Kubernetes version 'new' is not like 1.36"),
        (raw_stack(kubernetesVersion="1.12"), "kubernetesVersion: Kubernetes 1.12 is not supported"),
        (raw_stack() | {"extender": "image"}, "extender: 'image' is not a mapping"),
        (raw_stack(tenants={}), "tenants: {} is not a list"),
        (raw_stack(isolation={}), "isolation.image: missing; set it here, or 'isolation' in images"),
        (isolated(image="a/b:v1"), "isolation.image: 'a/b:v1' has no digest"),
        (isolated(nodeLabels=[]), "isolation.nodeLabels: empty; list labels of nodes with GPUs"),
        (isolated(nodeLabels=["cgpu=a b"]), "isolation.nodeLabels[0].cgpu: 'a b' is not a label value"),
        (isolated(state="gone"), "isolation.state: 'gone' is not allowed; use one of present, absent"),
        (isolated(folder="var/lib"), "isolation.folder: 'var/lib' must be absolute and without '..'"),
        (isolated(folder="/."), "isolation.folder: '/.' is not a folder for the library alone"),
        (isolated(kubeletRoot="var"), "isolation.kubeletRoot: 'var' must be absolute and without '..'"),
        (isolated(memory="64"), "isolation.memory: '64' is not an amount"),
        (raw_stack(mps={}), "mps.image: missing; set it here, or 'device-plugin' in images"),
        (raw_stack(mps={"image": "a/b:v1"}), "mps.image: 'a/b:v1' has no digest"),
        (raw_stack(mps={"image": DIGEST, "nodeLabels": []}), "mps.nodeLabels: empty; list labels of nodes"),
        (raw_stack(mps={"image": DIGEST, "cpu": "0"}), "mps.cpu: '0' is not a number of cores"),
        (raw_stack(monitoring={}), "monitoring.exporter.image: missing"),
        (monitored(nodeLabels=[]), "monitoring.exporter.nodeLabels: empty; list labels"),
        (monitored(nodeLabels=["a b"]), "monitoring.exporter.nodeLabels[0]: 'a b' is not a label"),
        (
            monitored(intervalSeconds=0),
            "monitoring.exporter.intervalSeconds: 0 is not allowed; use more than 0",
        ),
        (
            monitored(intervalSeconds=50),
            "monitoring.exporter: staleSeconds=60 must exceed intervalSeconds plus twice deadlineSeconds",
        ),
        (
            monitored(kubeletRoot="var"),
            "monitoring.exporter.kubeletRoot: 'var' must be absolute and without '..'",
        ),
        (monitored(cpu="many"), "monitoring.exporter.cpu: 'many'"),
        (
            answered(adapterRules=True, customMetrics=True),
            "prometheus-adapter; set monitoring.metricsApi.customMetrics: false, or remove adapterRules",
        ),
        (
            answered(tlsSecret=None, certificatesImage=DIGEST),
            "monitoring.metricsApi.caBundle: only for the certificate of monitoring.metricsApi.tlsSecret",
        ),
        (
            answered(tlsSecret=None, caBundle="", certificatesImage=""),
            "monitoring.metricsApi.certificatesImage: missing; set it here, or 'cli' in images",
        ),
        (with_board(image=""), "monitoring.board.image: missing; set it here, or 'cli' in images"),
        (with_board(tolerations=[{}]), "monitoring.board.tolerations[0].key: missing; set it, or operator"),
        (with_board(priorityClass="a b"), "monitoring.board.priorityClass: 'a b' is not an object name"),
        (with_board(tlsSecret="a b"), "monitoring.board.tlsSecret: 'a b' is not a name"),
        (with_board(memory="many"), "monitoring.board.memory: 'many'"),
        (answered(image=""), "monitoring.metricsApi.image: missing"),
        (answered(tlsSecret="a b"), "monitoring.metricsApi.tlsSecret: 'a b' is not a name"),
        (answered(caBundle="ca.crt"), "monitoring.metricsApi.caBundle: 'ca.crt' is not a certificate; set"),
        (answered(replicas=0), "monitoring.metricsApi.replicas: 0 is not allowed; use 1 to 10"),
        (answered(replicas=100_000), "monitoring.metricsApi.replicas: 100000 is not allowed; use 1 to 10"),
        (
            raw_stack(pools=[{"nodeSelector": {"gpushare": True}}]),
            "gpushare: true is not a string; put it in quotes",
        ),
        (raw_stack(pools=[{"nodeSelector": {1: "a"}}]), "nodeSelector.1: the key 1 is not a string"),
    ],
)
def test_missing_keys_and_wrong_types_are_errors(raw: dict[str, Any], text: str) -> None:
    assert text in error_of(raw)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (
            raw_stack(pools=[{"memoryUnit": "GB"}]),
            "devicePlugins[0].memoryUnit: 'GB' is not allowed; use one of GiB, MiB",
        ),
        (
            raw_stack(pools=[{"deviceListStrategy": ["cdi"]}]),
            'devicePlugins[0].deviceListStrategy: ["cdi"] is not allowed; use one of auto, volume-mounts',
        ),
        (
            raw_stack(extender={"exposure": "ingress"}),
            "extender.exposure: 'ingress' is not allowed; use one of node-port, cluster-ip, sidecar",
        ),
        (raw_stack(extender={"replicas": 4}), "extender.replicas: 4 is not allowed; use 1, 2 or 3"),
        (
            raw_stack(extender={"cgpuPodsPerCard": -1}),
            "extender.cgpuPodsPerCard: -1 is not allowed; use 0 or more",
        ),
        (
            raw_stack(extender={"shortlist": -1}),
            "extender.shortlist: -1 is not allowed; use 0 or more",
        ),
        (
            raw_stack(extender={"replicas": 3, "lease": False}),
            "extender.lease: 3 replicas need the Lease",
        ),
        (
            raw_stack(pools=[{"name": "p" * 38}]),
            f"devicePlugins[0].name: {'p' * 38!r} is not a name; use up to 37",
        ),
        (
            raw_stack(pools=[{"unifiedMemoryMib": 0}]),
            "devicePlugins[0].unifiedMemoryMib: 0 is not allowed; use 1 or more",
        ),
        (raw_stack(extender={"cpu": "0"}), "extender.cpu: '0' is not a number of cores"),
        (raw_stack(extender={"cpu": "1 core"}), "extender.cpu: '1 core' is not a number of cores"),
        (raw_stack(pools=[{"memory": "300"}]), "devicePlugins[0].memory: '300' is not an amount"),
        (raw_stack(extender={"tlsSecret": "A b"}), "extender.tlsSecret: 'A b' is not a name"),
        (raw_stack(extender={"clientNames": ["a"]}), "extender.clientNames: only for certificates of"),
        (
            raw_stack(extender={"tlsSecret": "tls", "clientNames": [""]}),
            "extender.clientNames: '' is not the name of a certificate",
        ),
    ],
)
def test_the_error_for_an_invalid_value_lists_the_valid_values(raw: dict[str, Any], text: str) -> None:
    assert error_of(raw).startswith(text)


@pytest.mark.parametrize("image", ["example.com/a", "example.com/a:v1", "example.com/a@sha256:12", "a b"])
def test_an_image_without_digest_is_refused(image: str) -> None:
    assert error_of(raw_stack(extender={"image": image})).startswith(
        f"extender.image: {image!r} has no digest"
    )


def test_tags_need_allow_tags_and_latest_is_never_allowed() -> None:
    tagged = raw_stack(extender={"image": "example.com:5000/a:v1"}, allowTags=True)
    assert load(tagged).extender.image == "example.com:5000/a:v1"
    for image in ("example.com/a", "example.com/a:latest"):
        assert "no tag other than latest" in error_of(raw_stack(extender={"image": image}, allowTags=True))


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ({}, "nodeSelector: empty, which selects every node"),
        ({"a b": "x"}, "nodeSelector: 'a b' is not a label"),
        ({"/pool": "x"}, "nodeSelector: '/pool' is not a label"),
        ({"gpushare": "yes please"}, "nodeSelector.gpushare: 'yes please' is not a label value"),
        ({"cgpu": "true", "ack.node.gpu.schedule": "mps"}, "two mode labels"),
        (
            {"gpushare": "true", "cgpu": "true"},
            "two mode labels, gpushare=true and cgpu=true; keep one",
        ),
        (
            {"ack.node.gpu.schedule": "default"},
            "means whole GPUs, so the node agent would not serve this pool",
        ),
        ({"ack.node.gpu.schedule": "some"}, "is not one of default, topology, share"),
        ({"gpushare": "false"}, "label gpushare=false, so the node agent would not serve this pool"),
    ],
)
def test_bad_selectors_are_refused(selector: dict[str, str], text: str) -> None:
    message = error_of(raw_stack(pools=[{"nodeSelector": selector}]))
    assert message.startswith("devicePlugins[0].nodeSelector")
    assert text in message


def test_pools_that_can_share_a_node_are_refused() -> None:
    pools: list[dict[str, Any]] = [{"name": "a"}, {"name": "b", "nodeSelector": {"cgpu": "true"}}]
    assert "can select the same node" in error_of(raw_stack(pools=pools))
    apart = [
        {"name": name, "nodeSelector": {"gpushare": "true", "example.com/pool": name}} for name in ("a", "b")
    ]
    assert len(load(raw_stack(pools=apart)).device_plugins) == 2
    twins = [apart[0], {**apart[1], "name": "a"}]
    assert error_of(raw_stack(pools=twins)).startswith("devicePlugins[1].name: 'a' is used twice")


def test_a_pool_without_a_mode_label_cannot_be_switched_off() -> None:
    pool = {"nodeSelector": {"example.com/pool": "a"}}
    assert load(raw_stack(pools=[pool])).device_plugins
    assert "devicePlugins[0].evictRecover: true needs a mode label" in error_of(
        raw_stack(pools=[{**pool, "evictRecover": True}])
    )


@pytest.mark.parametrize("path", ["", "kubelet", "/var/../etc"])
def test_paths_on_nodes_are_absolute_and_without_dots(path: str) -> None:
    for key in ("kubeletRoot", "kubeconfig", "driverRoot"):
        assert error_of(raw_stack(pools=[{key: path}])) == (
            f"devicePlugins[0].{key}: {path!r} must be absolute and without '..'"
        )
    assert error_of(monitored(driverRoot=path)) == (
        f"monitoring.exporter.driverRoot: {path!r} must be absolute and without '..'"
    )


@pytest.mark.parametrize("name", ["", "a b", "NVIDIA", "a..b", "a.-b"])
def test_names_of_runtime_classes_are_checked(name: str) -> None:
    reason = f"runtimeClass: {name!r} is not an object name"
    assert error_of(raw_stack(pools=[{"runtimeClass": name}])).startswith(f"devicePlugins[0].{reason}")
    assert error_of(monitored(runtimeClass=name)).startswith(f"monitoring.exporter.{reason}")
    mps = {"image": DIGEST, "runtimeClass": name}
    assert error_of(raw_stack(mps=mps)).startswith(f"mps.{reason}")


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "https://:9090",
        "http://[::1",
        "http://a:port",
        "ftp://a",
        "http://a b",
        "http://a/b\nc",
    ],
)
def test_urls_have_a_host_and_no_spaces(url: str) -> None:
    raw = raw_stack(monitoring={"exporter": {"image": DIGEST}, "runbooks": url})
    assert f": {url!r} is not a URL; use http:// or https://" in error_of(raw)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (
            raw_stack(extender=sidecar(), kubernetesVersion="1.17"),
            "extender.exposure: sidecar needs Kubernetes 1.18",
        ),
        (
            raw_stack(pools=[{"deviceListStrategy": "cdi"}], kubernetesVersion="1.28"),
            "devicePlugins[0].deviceListStrategy: cdi needs Kubernetes 1.29 or later, kubernetesVersion is",
        ),
    ],
)
def test_a_kubernetes_version_too_old_for_a_feature_is_an_error(raw: dict[str, Any], text: str) -> None:
    assert error_of(raw).startswith(text)


@pytest.mark.parametrize(
    ("extender", "text"),
    [
        (sidecar(replicas=3, tls="none"), "sidecar with 3 replicas needs certificates"),
        (sidecar(tlsSecret="tls"), "remove extender.tlsSecret"),
        (
            sidecar(exposure="node-port"),
            "extender.scheduler: not allowed with exposure node-port; use sidecar",
        ),
        (
            sidecar(scheduler={"image": DIGEST, "name": "default-scheduler"}),
            "extender.scheduler.name: 'default-scheduler' is the default scheduler",
        ),
        (
            sidecar(scheduler={"image": DIGEST, "cpuLimit": "x"}),
            "extender.scheduler.cpuLimit: 'x' is not a number of cores; use 500m or 1",
        ),
        (
            sidecar(scheduler={"image": DIGEST, "cpu": "1500m", "cpuLimit": "1"}),
            "extender.scheduler.cpuLimit: '1' is less than extender.scheduler.cpu, '1500m'",
        ),
        (
            sidecar(scheduler={"image": DIGEST, "memory": "1Gi", "memoryLimit": "1000Mi"}),
            "extender.scheduler.memoryLimit: '1000Mi' is less than extender.scheduler.memory, '1Gi'",
        ),
        (
            sidecar(scheduler={"image": DIGEST, "webhook": {"tlsSecret": "t", "caBundle": "x"}}),
            "extender.scheduler.webhook: from Kubernetes 1.36 on, a policy does the same; remove it",
        ),
        (
            sidecar(
                scheduler={
                    "image": DIGEST,
                    "setSchedulerName": False,
                    "webhook": {"tlsSecret": "t", "caBundle": "x"},
                }
            ),
            (
                "extender.scheduler.webhook: not allowed with extender.scheduler.setSchedulerName false; "
                "remove it"
            ),
        ),
        (
            sidecar(scheduler={"image": "kube-scheduler"}),
            "extender.scheduler.image: 'kube-scheduler' has no digest",
        ),
    ],
)
def test_settings_that_conflict_with_a_sidecar_are_errors(extender: dict[str, Any], text: str) -> None:
    assert text in error_of(raw_stack(extender=extender))


@pytest.mark.parametrize("extender", [{}, {"scheduler": None}, {"scheduler": {"name": "shares"}}])
@pytest.mark.parametrize("version", ["1.36", "1.30"])
def test_a_sidecar_without_an_image_is_the_first_release_of_the_version_of_the_cluster(
    extender: dict[str, Any], version: str
) -> None:
    found = load(raw_stack(extender={"exposure": "sidecar", **extender}, kubernetesVersion=version)).extender
    assert found.scheduler is not None
    assert found.scheduler.image == f"registry.k8s.io/kube-scheduler:v{version}.0"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"tlsSecret": "a b"}, "extender.scheduler.webhook.tlsSecret: 'a b' is not a name"),
        ({"caBundle": "x"}, "extender.scheduler.webhook.caBundle: 'x' is not a certificate"),
        ({"replicas": 0}, "extender.scheduler.webhook.replicas: 0 is not allowed; use 1 to 10"),
        ({"replicas": 11}, "extender.scheduler.webhook.replicas: 11 is not allowed; use 1 to 10"),
    ],
)
def test_a_webhook_needs_a_certificate(changes: dict[str, Any], text: str) -> None:
    webhook = {"tlsSecret": "t", "caBundle": "-----BEGIN CERTIFICATE-----", **changes}
    extender = sidecar(scheduler={"image": DIGEST, "webhook": webhook})
    assert text in error_of(raw_stack(extender=extender, kubernetesVersion="1.35"))


@pytest.mark.parametrize(
    ("tenants", "text"),
    [
        ([{"name": "Team A", "gpuMem": 1}], "tenants[0].name: 'Team A' is not a name"),
        (
            [{"name": "kube-system", "gpuMem": 1}],
            "tenants[0].name: 'kube-system' is reserved for Kubernetes",
        ),
        ([{"name": "a", "gpuMem": -1}], "tenants[0].gpuMem: -1 is not allowed; use 0 to 1000000000000"),
        ([{"name": "a", "gpuMem": 1, "gpus": 10**13}], "tenants[0].gpus: 10000000000000 is not allowed; use"),
        (
            [{"name": "a", "gpuMem": 1, "priority": 2_000_000_000}],
            "tenants[0].priority: 2000000000 is not allowed",
        ),
        ([{"name": "a", "gpuMem": 1}, {"name": "a", "gpuMem": 2}], "tenants[1].name: 'a' is used twice"),
    ],
)
def test_invalid_tenants_are_errors(tenants: list[dict[str, Any]], text: str) -> None:
    assert error_of(raw_stack(tenants=tenants)).startswith(text)


def test_engine_strings_and_file_values_decode_to_equal_settings() -> None:
    texts = {
        "gpushare:kubernetesVersion": "1.30",
        "gpushare:allowTags": "true",
        "gpushare:extender": json.dumps(node_port(image="example.com/a:v1", replicas=3, tls="none")),
        "kubernetes:context": "of another",
    }
    settings = load(from_engine(texts))
    assert (str(settings.kubernetes_version), settings.allow_tags, settings.extender.replicas) == (
        "1.30",
        True,
        3,
    )
    assert error_of(from_engine(texts | {"gpushare:extender": "nothing"})) == (
        "extender: 'nothing' is not a mapping of keys to values"
    )


def test_a_key_may_be_in_snake_case_but_not_in_both_cases() -> None:
    pool = load(raw_stack(pools=[{"memory_unit": "MiB"}])).device_plugins[0]
    assert pool.memory_unit is MemoryUnit.MIB
    assert error_of(raw_stack(pools=[{"memory_unit": "MiB", "memoryUnit": "GiB"}])) == (
        "devicePlugins[0].memoryUnit: is also set as memoryUnit; keep one"
    )


def test_an_integer_may_be_a_float_as_pulumi_sends_it() -> None:
    replicas = load(raw_stack(extender={"replicas": 3.0})).extender.replicas
    assert (replicas, type(replicas)) == (3, int)
    assert "3.5 is not an integer" in error_of(raw_stack(extender={"replicas": 3.5}))


OTHER = f"example.com/other@sha256:{'1' * 64}"


def without_images(**more: Any) -> dict[str, Any]:
    return {
        "kubernetesVersion": "1.36",
        "extender": node_port(),
        "devicePlugins": [{"nodeSelector": {"gpushare": "true"}}],
        "installer": {},
        **more,
    }


def test_components_without_an_image_use_the_file_of_make_images(tmp_path: Path) -> None:
    built = {"extender": OTHER, "device-plugin": DIGEST, "cli": OTHER, "exporter": DIGEST}
    file = tmp_path / "images.json"
    file.write_text(json.dumps(built))
    stack = load(without_images(images=str(file)))
    assert (stack.extender.image, stack.device_plugins[0].image) == (OTHER, DIGEST)
    assert stack.installer is not None
    assert stack.installer.image == OTHER
    own = load(without_images(images=str(file)) | {"extender": node_port(image=DIGEST)})
    assert own.extender.image == DIGEST
    assert load(without_images(images=built)) == stack


@pytest.mark.parametrize("extender", [{"tls": "none"}, {"tls": "stack"}, {"tlsSecret": "theirs"}, sidecar()])
def test_the_adoption_of_an_installation_needs_a_decision_on_tls(extender: dict[str, Any]) -> None:
    assert load(raw_stack(adopt=True, extender=extender)).adopt
    assert error_of(raw_stack(adopt=True)).startswith(
        "extender.tls: required with adopt, because the schedulers"
    )


def test_the_error_for_a_missing_image_has_the_remedy() -> None:
    assert error_of(raw_stack(extender={"certificatesImage": ""})) == (
        "extender.certificatesImage: missing; set it here, or 'cli' in images"
    )
    assert error_of(without_images()) == "extender.image: missing; set it here, or 'extender' in images"
    assert error_of(without_images(images={"extender": OTHER, "cli": OTHER})).startswith(
        "devicePlugins[0].image: missing; set it here, or 'device-plugin' in images"
    )


@pytest.mark.parametrize(
    ("images", "text"),
    [
        ({"extender": "example.com/a:v1"}, "images.extender: 'example.com/a:v1' has no digest"),
        ({"extender": 1}, "images.extender: 1 is not a string"),
        (["a"], 'images: ["a"] is not a mapping'),
        ("absent.json", "absent.json cannot be read: No such file or directory; create it with make images"),
        ("pyproject.toml", "pyproject.toml is not JSON"),
    ],
)
def test_invalid_images_are_errors(images: Any, text: str) -> None:
    message = error_of(without_images(images=images))
    assert message.startswith("images")
    assert text in message


@pytest.mark.parametrize(
    ("top", "text"),
    [
        ({"registry": "https://example.com"}, "registry: 'https://example.com' is not a registry"),
        ({"registry": "example.com/"}, "registry: 'example.com/' is not a registry"),
        ({"registry": "example.com:65536"}, "registry: 'example.com:65536' is not a registry"),
        ({"registry": "example.com:0/mirror"}, "registry: 'example.com:0/mirror' is not a registry"),
        ({"imagePullSecrets": ["A"]}, "imagePullSecrets[0]: 'A' is not an object name"),
        ({"imagePullSecrets": "pull"}, "imagePullSecrets: 'pull' is not a list"),
    ],
)
def test_an_invalid_registry_or_pull_secret_is_an_error(top: dict[str, Any], text: str) -> None:
    assert error_of(raw_stack(**top)).startswith(text)


@pytest.mark.parametrize(
    ("installer", "extender", "text"),
    [
        ({"controlPlanes": 0}, {}, "installer.controlPlanes: 0 is not allowed; use 1 to 100"),
        ({"controlPlanes": 101}, {}, "installer.controlPlanes: 101 is not allowed; use 1 to 100"),
        ({"state": "gone"}, {}, "installer.state: 'gone' is not allowed; use one of present, absent"),
        ({"url": "10.0.0.1:80"}, {}, "installer.url: '10.0.0.1:80' is not allowed with extender.tls"),
        (
            {"url": "http://10.0.0.1:80"},
            {"tls": "stack", "certificatesImage": DIGEST},
            "installer.url: 'http://10.0.0.1:80' is not allowed with extender.tls: stack; use one like https://",
        ),
        ({}, {"exposure": "cluster-ip"}, "installer.url: missing; with extender.exposure cluster-ip"),
        (
            {},
            {"tlsSecret": "tls"},
            "installer: the Job has no client certificate for extender.tlsSecret",
        ),
        ({}, sidecar(), "installer: extender.exposure sidecar does not change the default scheduler"),
        ({"image": "a:v1"}, {}, "installer.image: 'a:v1' has no digest"),
    ],
)
def test_settings_that_conflict_with_an_installer_are_errors(
    installer: dict[str, Any], extender: dict[str, Any], text: str
) -> None:
    raw = raw_stack(extender=extender, installer={"image": DIGEST, **installer})
    assert error_of(raw).startswith(text)


@pytest.mark.parametrize(
    ("pools", "text"),
    [
        ([{}], "nodePools[0].nodes: missing"),
        ([{"nodes": []}], "nodePools[0].nodes: empty; list the nodes"),
        ([{"nodes": ["A b"]}], "nodePools[0].nodes[0]: 'A b' is not an object name"),
        ([{"nodes": ["a"]}, {"nodes": ["b", "a"]}], "nodePools[1].nodes: 'a' is also in nodePools[0]"),
        ([{"nodes": ["a"], "labels": {"a b": ""}}], "nodePools[0].labels: 'a b' is not a label"),
        (
            [{"nodes": ["a"], "labels": {"cgpu": "true", "gpushare": "true"}}],
            "nodePools[0].labels: two mode labels",
        ),
        (
            [{"nodes": ["a"], "labels": {"ack.node.gpu.placement": "spread"}}],
            "nodePools[0].labels: 'ack.node.gpu.placement' is not allowed here; use nodePools[0].placement",
        ),
        (
            [{"nodes": ["a"], "placement": "best"}],
            "nodePools[0].placement: 'best' is not allowed; use one of",
        ),
        ([{"nodes": ["a"], "taints": ["gpu:Never"]}], "nodePools[0].taints[0]: 'gpu:Never' is not a taint"),
    ],
)
def test_invalid_node_pools_are_errors(pools: list[dict[str, Any]], text: str) -> None:
    assert error_of(raw_stack(nodePools=pools)).startswith(text)


def test_a_kubernetes_without_server_side_apply_gets_no_node_pools() -> None:
    raw = raw_stack(nodePools=[{"nodes": ["a"]}], kubernetesVersion="1.17")
    assert error_of(raw).startswith("nodePools[0] needs Kubernetes 1.18 or later")


@pytest.mark.parametrize(
    ("selector", "labels", "mode"),
    [
        ({"gpushare": "true"}, {"cgpu": "true"}, "cgpu"),
        ({"ack.node.gpu.schedule": "share"}, {"ack.node.gpu.schedule": "cgpu"}, "cgpu"),
        ({"gpushare": "true", "card": "t4"}, {"gpushare": "true", "card": "v100"}, "share"),
    ],
    ids=["another label of a mode", "another mode", "another card"],
)
def test_nodes_that_are_labelled_as_sharing_need_an_agent(
    selector: dict[str, str], labels: dict[str, str], mode: str
) -> None:
    pool = {"nodes": ["a"], "labels": labels}
    assert error_of(raw_stack(pools=[{"nodeSelector": selector}], nodePools=[pool])) == (
        f"nodePools[0].labels: {listed(labels)}, mode {mode}, but no nodeSelector of devicePlugins selects "
        "these nodes, so they would have no agent; add an entry"
    )


@pytest.mark.parametrize(
    ("pools", "labels"),
    [
        ([{"nodeSelector": {"gpushare": "true", "card": "t4"}}], {"gpushare": "true"}),
        ([{"nodeSelector": {"card": "t4"}}], {"gpushare": "true"}),
        ([{}], {"gpushare": "false"}),
        ([{}], {"card": "t4"}),
        ([], {"cgpu": "true"}),
    ],
    ids=[
        "other labels from elsewhere",
        "no label of a mode",
        "whole GPUs",
        "no mode",
        "agents from elsewhere",
    ],
)
def test_nodes_that_may_have_an_agent_or_need_none_are_accepted(
    pools: list[dict[str, Any]], labels: dict[str, str]
) -> None:
    assert load(raw_stack(pools=pools, nodePools=[{"nodes": ["a"], "labels": labels}]))
