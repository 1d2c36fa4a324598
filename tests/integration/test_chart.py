"""The chart with the real Helm, 3 and 4: equal to the stack, and through the life of a release.

``tests/unit/release/test_chart.py`` reads the files of the chart.
"""

import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from components.cluster import Cluster
from components.cluster import advice_on as advice_on_cluster
from components.manifests import everything
from components.manifests.device_plugin import NAME as AGENT
from components.manifests.parts import Object
from components.manifests.prometheus import NAME
from components.stack import from_file, load
from gpushare.contract import (
    AUTHORITY_SECRET,
    BOARD_NAME,
    EXPORTER_NAME,
    EXTENDER_NAME,
    INSTALLER_NAME,
    ISOLATION_INSTALLER_NAME,
    METRICS_API_NAME,
    MPS_NAME,
    SCHEDULER_NAMING,
)
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.monitoring.alerts import ALERTS
from release.bundle import install_yaml
from testbed import Bed, DevkitError, SchedulerSpec, Testbed
from tests.support.builders.chart_objects import by_identity
from tests.support.builders.chart_values import (
    CERTIFICATE,
    IMAGES,
    OLDEST,
    RUNBOOKS,
    SCHEDULER,
    image_of,
    values_of,
    without_others,
)
from tests.support.builders.settings_alone import alone, around, merged
from tests.support.builders.stacks import STACKS
from tests.support.fixtures import helm
from tests.support.fixtures.helm import CHART, NAMESPACE, PROGRAMS, RELEASE, Helm

pytestmark = pytest.mark.asyncio(loop_scope="module")

UPGRADE = Path(__file__).parents[2] / "docs/how-to/upgrade.md"
DEPLOYMENT = f"/apis/apps/v1/namespaces/kube-system/deployments/{EXTENDER_NAME}"
INSTALLER = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{ISOLATION_INSTALLER_NAME}"
INSTALLER_JOB = f"/apis/batch/v1/namespaces/kube-system/jobs/{INSTALLER_NAME}"
AUTHORITY = f"/api/v1/namespaces/kube-system/secrets/{AUTHORITY_SECRET}"
BUDGETS = "/apis/policy/v1/namespaces/kube-system/poddisruptionbudgets"
OURS = {"labelSelector": "app=gpushare"}
ALONE = dict(alone())
"""Stacks by the name of the only setting that is not its default."""
NODE_PORT = {"exposure": "node-port"}
"""As in the ACK documentation."""
LAYOUT = "--set=extender.exposure=node-port"
SIDECAR = {"exposure": "sidecar", "scheduler": {"image": image_of(SCHEDULER)}}
SHORT = f"sha256:{'a' * 63}"
MADE = base64.b64encode(b"made in the cluster").decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def offline(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return await helm.make(tmp_path_factory.mktemp("helm"))


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=PROGRAMS)
async def each_helm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return await helm.make(tmp_path_factory.mktemp(request.param), request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    async with Testbed(kwok=False, scheduler=SchedulerSpec(None)) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=PROGRAMS)
async def online(request: pytest.FixtureRequest, bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return await helm.make(tmp_path_factory.mktemp(request.param), request.param, bed.kubeconfig)


# --- the objects --------------------------------------------------------------------------------


async def assert_equal_to_stack(program: Helm, stack: dict[str, Any]) -> None:
    raw = without_others(stack)
    rendered = await program.rendered(raw["kubernetesVersion"], values_of(raw))
    assert by_identity(rendered) == by_identity(everything(load(raw)))


@pytest.mark.parametrize("name", STACKS)
async def test_the_chart_has_the_objects_of_the_examples(each_helm: Helm, name: str) -> None:
    await assert_equal_to_stack(each_helm, from_file(STACKS[name]))


@pytest.mark.parametrize("version", [OLDEST, "1.33", "1.36"])
@pytest.mark.parametrize("query", [True, False])
async def test_the_chart_has_the_objects_of_every_version(
    offline: Helm, version: str, *, query: bool
) -> None:
    stack = merged(around(""), {"extender": {"exposure": "sidecar", "scheduler": {"image": SCHEDULER}}})
    await assert_equal_to_stack(
        offline, merged(stack, {"kubernetesVersion": version, "devicePlugins": [{"queryKubelet": query}]})
    )


@pytest.mark.parametrize("name", ALONE)
async def test_every_setting_alone_has_the_effect_that_it_has_in_a_stack(offline: Helm, name: str) -> None:
    await assert_equal_to_stack(offline, ALONE[name])


async def test_the_chart_without_values_has_the_objects_of_install_yaml(each_helm: Helm) -> None:
    installed = [each for each in yaml.safe_load_all(install_yaml(IMAGES)) if each]
    assert by_identity(await each_helm.rendered("1.36", {})) == by_identity(installed)


async def test_the_chart_of_a_checkout_takes_the_images_that_make_images_writes(each_helm: Helm) -> None:
    words = ("template", RELEASE, str(CHART), NAMESPACE, "--kube-version=v1.36.0")
    text = await each_helm.run(*words, f"--set-json=images={json.dumps(IMAGES)}")
    objects = [each for each in yaml.safe_load_all(text[text.index("---") :]) if each]
    assert by_identity(objects) == by_identity(await each_helm.rendered("1.36", {}))
    with pytest.raises(DevkitError, match=r"images\.\S+; set one of them, or use the chart of a release"):
        await each_helm.run(*words)


# --- what Helm users expect ---------------------------------------------------------------------


async def test_every_object_has_the_labels_of_helm_and_no_selector_uses_them(offline: Helm) -> None:
    for each in await offline.rendered("1.36", values_of(from_file(STACKS["everything"]))):
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "gpushare"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["helm.sh/chart"].startswith("gpushare-")
        assert "app.kubernetes.io/" not in json.dumps(each.get("spec", {}).get("selector", {}))


async def test_a_new_version_of_the_chart_replaces_no_pod(offline: Helm) -> None:
    for each in await offline.rendered("1.36", {}):
        pod = each.get("spec", {}).get("template", {}).get("metadata", {}).get("labels", {})
        assert not {"helm.sh/chart", "app.kubernetes.io/version"} & set(pod)


async def test_names_that_nothing_looks_up_have_another_prefix(offline: Helm) -> None:
    own = {"nameOverride": "shares", "fullnameOverride": "team", "monitoring": {"viewers": ["a"]}}
    objects = await offline.rendered("1.36", own)
    assert {each["metadata"]["labels"]["app.kubernetes.io/name"] for each in objects} == {"shares"}
    names = {each["metadata"]["name"] for each in objects if each["metadata"]["name"].startswith("team-")}
    assert names == {
        *(
            "team-prometheus",
            "team-dashboard-gpu-app",
            "team-dashboard-gpu-cluster",
            "team-dashboard-gpu-node",
            "team-dashboard-gpu-scheduler",
            "team-dashboard-gpu-tenants",
        ),
        "team-viewer",
    }


COMPONENTS = {
    "extender": EXTENDER_NAME,
    "extender.scheduler.webhook": SCHEDULER_NAMING,
    "devicePlugin": AGENT,
    "isolation": ISOLATION_INSTALLER_NAME,
    "mps": MPS_NAME,
    "monitoring.exporter": EXPORTER_NAME,
    "monitoring.metricsApi": METRICS_API_NAME,
    "monitoring.board": BOARD_NAME,
    "monitoring.prometheus": NAME,
}
"""The workload of each section."""
AFFINITY: dict[str, Any] = {
    "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
}
OWN: dict[str, Any] = {
    "podLabels": {"example.com/team": "ml", "app": "other"},
    "podAnnotations": {"example.com/scrape": "no"},
    "nodeSelector": {"example.com/zone": "a"},
    "affinity": AFFINITY,
    "extraArgs": ["--one=1"],
    "extraEnv": [{"name": "ONE", "value": "1"}],
}


@pytest.mark.parametrize("section", COMPONENTS)
async def test_the_pods_of_every_component_take_what_helm_users_set(offline: Helm, section: str) -> None:
    template = await template_with(offline, section, OWN)
    pod, (container, *_) = template["spec"], template["spec"]["containers"]
    assert template["metadata"]["labels"].items() >= {"example.com/team": "ml", "app": "gpushare"}.items()
    assert template["metadata"]["annotations"]["example.com/scrape"] == "no"
    assert pod["nodeSelector"]["example.com/zone"] == "a"
    assert pod["affinity"] == AFFINITY
    assert container.get("command", container.get("args"))[-1] == "--one=1"
    assert container["env"][-1] == {"name": "ONE", "value": "1"}


@pytest.mark.parametrize("section", [each for each in COMPONENTS if not each.endswith("webhook")])
async def test_the_image_of_every_component_is_a_repository_with_tag_or_digest(
    offline: Helm, section: str
) -> None:
    digest = f"sha256:{'a' * 64}"
    own = {"repository": "example.com/own", "tag": "v1", "digest": digest, "pullPolicy": "Always"}
    template = await template_with(offline, section, {"image": own})
    container = template["spec"]["containers"][0]
    assert container["image"] == f"example.com/own:v1@{digest}"
    assert container["imagePullPolicy"] == "Always"


async def template_with(program: Helm, section: str, own: dict[str, Any]) -> Object:
    """The template of the pods of a component with these values."""
    values = own
    for key in reversed(section.split(".")):
        values = {key: values}
    stack = around(f"{section}.any")
    values = merged(values_of(without_others(stack)), values)
    objects = await program.rendered(stack["kubernetesVersion"], values)
    (found,) = (
        each["spec"]["template"]
        for each in objects
        if each["metadata"]["name"] == COMPONENTS[section] and "template" in each.get("spec", {})
    )
    return dict(found)


async def test_the_scheduler_takes_flags_and_variables(offline: Helm) -> None:
    own = {"extraArgs": ["--v=4"], "extraEnv": [{"name": "ONE", "value": "1"}]}
    objects = await offline.rendered("1.36", {"extender": merged(SIDECAR, {"scheduler": own})})
    (deployment,) = (
        each for each in objects if each["kind"] == "Deployment" and each["metadata"]["name"] == EXTENDER_NAME
    )
    _, scheduler = deployment["spec"]["template"]["spec"]["containers"]
    assert (scheduler["command"][-1], scheduler["env"]) == ("--v=4", own["extraEnv"])


async def test_what_has_data_and_the_mps_daemon_stay_after_an_uninstall(offline: Helm) -> None:
    values = values_of(without_others(from_file(STACKS["everything"])))
    values = merged(values, {"extender": {"tlsSecret": ""}})
    kept = {
        each["kind"]
        for each in await offline.rendered("1.36", values)
        if each["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep"
    }
    assert kept == {"PersistentVolumeClaim", "DaemonSet", "Namespace", "PriorityClass"}


async def test_another_content_of_a_job_or_of_files_is_another_object_or_pod(offline: Helm) -> None:
    values = {"extender": NODE_PORT, "monitoring": {"prometheus": {"enabled": True}}}
    other = {"extender": {"priorityClassName": "other"}, "monitoring": {"runbooks": RUNBOOKS}}
    first, second = [await digests(offline, each) for each in (values, merged(values, other))]
    assert len(first) == len(second) == 2
    assert not first & second


async def digests(program: Helm, values: dict[str, Any]) -> set[str]:
    text = json.dumps(await program.rendered("1.36", values))
    return set(re.findall(r'gpushare-certificates-[0-9a-f]{8}|(?<="checksum/files": ")\w+', text))


@pytest.mark.parametrize(
    "shape",
    [{}, {"prometheus": {"enabled": True}}, {"operator": True}],
    ids=["files", "a Prometheus of the chart", "the Prometheus Operator"],
)
@pytest.mark.parametrize("page", ["", RUNBOOKS])
async def test_every_alert_links_to_the_runbooks_of_the_values_if_they_name_any(
    offline: Helm, shape: dict[str, Any], page: str
) -> None:
    objects = await offline.rendered("1.36", {"monitoring": {**shape, "runbooks": page}})
    assert links(objects) == [f"{page}#{each.anchor}" if page else None for each in ALERTS]


async def test_the_chart_passes_the_lint_of_helm(each_helm: Helm) -> None:
    for chart in (each_helm.archive, CHART):
        assert "0 chart(s) failed" in await each_helm.run(
            "lint", "--strict", "--kube-version=v1.36.0", str(chart)
        )


# --- wrong values -------------------------------------------------------------------------------

SERVER = {"enabled": True, "tlsSecret": "tls", "caBundle": CERTIFICATE}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"extendr": {}}, "additional properties 'extendr' not allowed"),
    ({"monitoring": None}, "missing property 'monitoring'"),
    ({"extender": {"scheduler": None}}, "missing property 'scheduler'"),
    ({"images": {"extender": None}}, "at '/images': missing property 'extender'"),
    ({"extender": {"exposure": "nodeport"}}, "at '/extender/exposure': value must be one of 'node-port'"),
    ({"extender": {"tls": "both"}}, "at '/extender/tls': value must be one of 'stack', 'none'"),
    ({"extender": {"replicas": 4}}, "at '/extender/replicas': maximum: got 4, want 3"),
    ({"extender": {"tlsSecret": "A_b"}}, "at '/extender/tlsSecret': 'A_b'"),
    (
        {"extender": {"image": {"repository": "a", "digest": SHORT}}},
        f"at '/extender/image/digest': '{SHORT}'",
    ),
    ({"extender": {"resources": {"limits": {"cpu": "x"}}}}, "at '/extender/resources/limits/cpu': 'x'"),
    ({"extender": {"scheduler": {"name": "default-scheduler"}}}, "/extender/scheduler/name"),
    ({"extender": {"tolerations": [{"operator": "exists"}]}}, "/extender/tolerations/0/operator"),
    ({"isolation": {"tolerations": [{"key": "a b"}]}}, "/isolation/tolerations/0/key': 'a b'"),
    ({"mps": {"tolerations": [{"operator": "Exists", "value": "b"}]}}, "/mps/tolerations/0/value': 'b'"),
    ({"mps": {"tolerations": [{"value": "gpu"}]}}, "at '/mps/tolerations/0': missing property 'key'"),
    ({"registry": "http://mirror"}, "at '/registry': 'http://mirror'"),
    ({"registry": "mirror:65536"}, "at '/registry': 'mirror:65536'"),
    ({"imagePullSecrets": ["pull"]}, "at '/imagePullSecrets/0': got string, want object"),
    ({"imagePullSecrets": [{"name": "A_b"}]}, "at '/imagePullSecrets/0/name': 'A_b'"),
    ({"devicePlugin": {"runtimeClassName": "A b"}}, "at '/devicePlugin/runtimeClassName': 'A b'"),
    ({"devicePlugin": {"kubeletRoot": "var"}}, "at '/devicePlugin/kubeletRoot': 'var'"),
    ({"isolation": {"kubeletRoot": "/a/../b"}}, "at '/isolation/kubeletRoot': '/a/../b'"),
    ({"devicePlugin": {"nodeSelector": {"a b": "c"}}}, "additional properties 'a b' not allowed"),
    ({"devicePlugin": {"nodeSelector": {"a": "b c"}}}, "at '/devicePlugin/nodeSelector/a': 'b c'"),
    ({"devicePlugin": {"pools": [{"names": "a"}]}}, "/devicePlugin/pools/0': additional properties 'names'"),
    ({"isolation": {"maxUnavailable": "0%"}}, "at '/isolation/maxUnavailable': '0%'"),
    ({"commonLabels": {"app": "mine"}}, "at '/commonLabels': 'not' failed"),
    ({"tenants": [{"name": "a"}]}, "at '/tenants/0': missing property 'gpuMem'"),
    ({"devicePlugin": {"kubeletPort": 65536}}, "at '/devicePlugin/kubeletPort': maximum: got 65,536"),
    ({"devicePlugin": {"timeout": 0}}, "at '/devicePlugin/timeout': exclusiveMinimum: got 0, want 0"),
    ({"isolation": {"logLevel": "all"}}, "at '/isolation/logLevel': value must be one of 'debug'"),
    ({"monitoring": {"prometheus": {"storage": "20"}}}, "at '/monitoring/prometheus/storage': '20'"),
    ({"monitoring": {"prometheus": {"retention": "a week"}}}, "/monitoring/prometheus/retention': 'a week'"),
    *(
        ({"monitoring": {"runbooks": url}}, f"at '/monitoring/runbooks': '{url}'")
        for url in (
            "wiki",
            "ftp://a",
            "http://",
            "https://:9090",
            "http://[::1",
            "http://a:port",
            "http://a b",
        )
    ),
]
"""Values that the schema refuses, with the text of Helm."""
IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"extender": {"image": {"repository": "a.b/extender", "tag": "v1"}}}, "'a.b/extender:v1' has no digest"),
    (
        {"allowTags": True, "images": {"extender": "a.b:5000/extender:latest"}},
        "no digest and no tag other than latest",
    ),
    (
        {"allowTags": True, "images": {"extender": "a.b:5000/extender"}},
        "no digest and no tag other than latest",
    ),
    ({"extender": {"leaseDuration": 10}}, "must rise: bindTimeout < renewDeadline < leaseDuration"),
    ({"extender": {"bindTimeout": 10}}, "given 10, 10, 15"),
    (
        {"extender": {"retryPeriod": 7}},
        "extender.retryPeriod: 7 must be less than extender.renewDeadline minus",
    ),
    (
        {"monitoring": {"exporter": {"intervalSeconds": 50}}},
        "monitoring.exporter.staleSeconds: 60 must exceed",
    ),
    (
        {"extender": {"placement": "replay", "shortlist": 9}},
        "extender: shortlist 9 excludes placement replay",
    ),
    ({"extender": {"replicas": 2, "lease": False}}, "extender.lease: 2 replicas need the Lease"),
    (
        {"extender": {"clientNames": ["a"]}},
        "extender.clientNames: only for certificates of extender.tlsSecret",
    ),
    ({"installer": {"enabled": True}}, "installer: extender.exposure sidecar does not change the default"),
    ({"extender": NODE_PORT | {"tlsSecret": "own"}, "installer": {"enabled": True}}, "no client certificate"),
    ({"extender": {"exposure": "cluster-ip"}, "installer": {"enabled": True}}, "installer.url: missing"),
    (
        {"extender": NODE_PORT, "installer": {"enabled": True, "url": "http://10.0.0.1:32766/a"}},
        "installer.url: 'http://10.0.0.1:32766/a' is not allowed with extender.tls: stack",
    ),
    (
        {"extender": SIDECAR | {"exposure": "node-port"}},
        "extender.scheduler: not allowed with exposure node-port",
    ),
    ({"extender": SIDECAR | {"replicas": 2, "tls": "none"}}, "sidecar with 2 replicas needs certificates"),
    ({"extender": SIDECAR | {"tlsSecret": "own"}}, "sidecar with one replica serves only its own pod"),
    (
        {"extender": {"exposure": "sidecar", "scheduler": {"image": image_of(SCHEDULER), "webhook": SERVER}}},
        "extender.scheduler.webhook: from Kubernetes 1.36 on, a policy does the same",
    ),
    ({"monitoring": {"prometheus": {"enabled": True}, "operator": True}}, "keep one Prometheus"),
    (
        {"monitoring": {"prometheus": {"enabled": True, "storageClass": "fast"}}},
        "monitoring.prometheus.storageClass: only with monitoring.prometheus.storage",
    ),
    (
        {"monitoring": {"metricsApi": {"customMetrics": True}, "adapterRules": True}},
        "monitoring.adapterRules: ",
    ),
    (
        {"monitoring": {"metricsApi": SERVER | {"tlsSecret": ""}}},
        "monitoring.metricsApi.caBundle: only for the certificate of monitoring.metricsApi.tlsSecret",
    ),
    (
        {"monitoring": {"metricsApi": {"injectCaFrom": "a/b"}}},
        "monitoring.metricsApi.injectCaFrom: only for the certificate of",
    ),
    ({"monitoring": {"metricsApi": SERVER | {"caBundle": "x"}}}, "monitoring.metricsApi.caBundle: 'x'"),
    ({"monitoring": {"metricsApi": SERVER | {"injectCaFrom": "a/b"}}}, "caBundle is also set; keep one"),
    ({"monitoring": {"board": {"enabled": True}}}, "monitoring.board.tlsSecret: missing"),
    ({"networkPolicies": {"enabled": True}}, "networkPolicies.controlPlane: empty"),
    ({"tenants": [{"name": "kube-a", "gpuMem": 1}]}, "'kube-a' is reserved for Kubernetes"),
    ({"tenants": [{"name": "a", "gpuMem": 1}] * 2}, "tenants: 'a' is used twice"),
    (
        {"devicePlugin": {"nodeSelector": {"gpushare": "true"}}},
        "devicePlugin.nodeSelector: two mode labels, gpushare=true and cgpu=true; keep one",
    ),
    (
        {"devicePlugin": {"nodeSelector": {"cgpu": "false"}}},
        "cgpu=false, so the node agent would not",
    ),
    (
        {"devicePlugin": {"nodeSelector": {"cgpu": None, "ack.node.gpu.schedule": "default"}}},
        "ack.node.gpu.schedule=default, so the node agent would not serve these nodes",
    ),
    (
        {"devicePlugin": {"nodeSelector": {"cgpu": None, "a": "b"}, "evictRecover": True}},
        "devicePlugin.evictRecover: true needs a mode label in nodeSelector",
    ),
    (
        {"isolation": {"enabled": False}},
        "isolation.enabled: false, but",
    ),
    (
        {"devicePlugin": {"nodeSelector": {"ack.node.gpu.schedule": "mps", "cgpu": None}}},
        "mps.enabled: false, but",
    ),
    (
        {"devicePlugin": {"pools": [{"name": "a"}, {"name": "b"}]}},
        "the node selectors of 'a' and 'b' can select the same node",
    ),
    ({"devicePlugin": {"pools": [{"name": "a"}, {"name": "a"}]}}, "name 'a' is used twice"),
]
"""Values that each are right and cannot be together; the stack refuses them too."""


@pytest.mark.parametrize(("values", "problem"), REFUSED + IMPOSSIBLE)
async def test_wrong_values_are_errors_that_name_the_key(
    offline: Helm, values: dict[str, Any], problem: str
) -> None:
    with pytest.raises(DevkitError, match=re.escape(problem)):
        await offline.rendered("1.36", values)


@pytest.mark.parametrize(
    "values",
    [
        {
            "devicePlugin": {"nodeSelector": {"cgpu.disable.isolation": "true"}},
            "isolation": {"enabled": False},
        },
        {
            "devicePlugin": {"nodeSelector": {"ack.node.gpu.schedule": "mps", "cgpu": None}},
            "mps": {"enabled": True},
        },
        {
            "extender": {"tolerations": []},
            "registry": "mirror:65535/a_b/c.d",
            "isolation": {"kubeletRoot": "/.../..a/./b"},
        },
        {
            "extender": {"resources": {"requests": {"cpu": 0.5}}},
            "global": {"imageRegistry": "of another chart"},
        },
        {"extender": {"bindTimeout": 7.9}, "monitoring": {"exporter": {"intervalSeconds": 49.9}}},
        *(
            {"monitoring": {"runbooks": url}}
            for url in ("http://a", "https://[::1]:80/b", "https://a/grün?a=b")
        ),
    ],
)
async def test_unusual_values_are_accepted(offline: Helm, values: dict[str, Any]) -> None:
    assert await offline.rendered("1.36", values)


async def test_an_older_cluster_is_an_error(each_helm: Helm) -> None:
    with pytest.raises(DevkitError, match=r"requires kubeVersion: >=1\.30"):
        await each_helm.rendered("1.29", {})


async def test_another_namespace_is_an_error(each_helm: Helm) -> None:
    with pytest.raises(DevkitError, match=r"--namespace: 'gpus' is not allowed; use kube-system"):
        await each_helm.run(
            "template", RELEASE, str(each_helm.archive), "--namespace=gpus", "--kube-version=v1.36.0"
        )


# --- the life of a release ----------------------------------------------------------------------


async def test_a_layout_that_no_node_can_take_is_an_error_and_too_few_nodes_a_warning(
    bed: Bed, online: Helm
) -> None:
    dry = (NAMESPACE, "--dry-run=server")
    await bed.api.create("/api/v1/nodes", {"metadata": {"name": "only"}})
    with pytest.raises(
        DevkitError, match=r"node-port needs a control plane node for each of 1 replicas, but 0 of"
    ):
        await online.run("install", RELEASE, str(online.archive), *dry, LAYOUT)
    told = await online.run("install", RELEASE, str(online.archive), *dry, "--set=extender.replicas=3")
    (advice,) = advice_on_cluster(load(three_sidecars()), Cluster(KubernetesVersion(1, 36), frozenset(), 1))
    assert f"Warning: {advice}\n" in told
    await bed.api.delete("/api/v1/nodes/only")


def three_sidecars() -> dict[str, Any]:
    return merged(around(""), {"extender": {"replicas": 3}})


async def test_helm_waits_for_the_installer(bed: Bed, online: Helm) -> None:
    """Nothing runs its pods here."""
    flags = (NAMESPACE, LAYOUT, "--set=installer.enabled=true", "--timeout=5s")
    with pytest.raises(DevkitError, match="post-install"):
        await online.run("install", RELEASE, str(online.archive), *flags)
    assert (await bed.api.get(INSTALLER_JOB))["spec"]["completions"] == 1
    assert await replicas(bed) == 1
    await online.run("uninstall", RELEASE, NAMESPACE)
    await bed.api.delete(INSTALLER_JOB)


async def test_a_release_is_installed_upgraded_rolled_back_and_removed(bed: Bed, online: Helm) -> None:
    chart = str(online.archive)
    await online.run("install", RELEASE, chart, NAMESPACE, LAYOUT)
    assert await replicas(bed) == 1
    # As the Job of the certificates, which does not run on simulated nodes.
    secret = {"metadata": {"name": AUTHORITY_SECRET}, "data": {"ca.key": MADE}}
    await bed.api.create(AUTHORITY.rpartition("/")[0], secret)

    await online.run("upgrade", RELEASE, chart, NAMESPACE, LAYOUT, "--set=extender.replicas=3")
    assert (await replicas(bed), await names(bed, BUDGETS)) == (3, [METRICS_API_NAME, EXTENDER_NAME])

    await online.run("rollback", RELEASE, "1", NAMESPACE)
    assert (await replicas(bed), await names(bed, BUDGETS)) == (1, [METRICS_API_NAME])
    assert (await bed.api.get(AUTHORITY))["data"] == {"ca.key": MADE}

    await online.run("upgrade", RELEASE, chart, NAMESPACE, LAYOUT, "--set=isolation.state=absent")
    assert "uninstall" in await installer_command(bed)

    await online.run("uninstall", RELEASE, NAMESPACE)
    assert await names(bed, "/apis/apps/v1/namespaces/kube-system/deployments") == []
    assert (await bed.api.get(AUTHORITY))["data"] == {"ca.key": MADE}

    await online.run("install", RELEASE, chart, NAMESPACE, LAYOUT)
    assert (await bed.api.get(AUTHORITY))["data"] == {"ca.key": MADE}
    await online.run("uninstall", RELEASE, NAMESPACE)
    await bed.api.delete(AUTHORITY)


@pytest.mark.parametrize("program", [PROGRAMS[1]])
async def test_a_release_of_helm_3_is_upgraded_and_removed_by_helm_4(
    bed: Bed, tmp_path: Path, program: str
) -> None:
    older = await helm.make(tmp_path, PROGRAMS[0], bed.kubeconfig)
    newer = await helm.make(tmp_path, program, bed.kubeconfig)
    await older.run("install", RELEASE, str(older.archive), NAMESPACE)
    await newer.run("upgrade", RELEASE, str(newer.archive), NAMESPACE, "--set=extender.replicas=3")
    assert await replicas(bed) == 3
    await newer.run("rollback", RELEASE, "1", NAMESPACE)
    assert await replicas(bed) == 1
    await newer.run("uninstall", RELEASE, NAMESPACE)


async def test_every_part_is_accepted_by_the_api_server(bed: Bed, online: Helm) -> None:
    values = values_of(without_others(from_file(STACKS["everything"])))
    await online.run("install", RELEASE, str(online.archive), NAMESPACE, online.values(values))
    assert await replicas(bed) == 3
    await online.run("uninstall", RELEASE, NAMESPACE)


async def test_an_upgrade_as_documented_keeps_the_values_and_brings_the_new_images(
    bed: Bed, online: Helm, tmp_path: Path
) -> None:
    (command,) = re.findall(r"^\| Helm \| `helm upgrade (.*)` \|$", UPGRADE.read_text(), re.MULTILINE)
    _, _, *flags = command.split()
    await online.run(
        "upgrade", "--install", RELEASE, str(online.archive), NAMESPACE, "--set=extender.replicas=2"
    )
    new = helm.archive(tmp_path, {name: f"{image[:-1]}f" for name, image in IMAGES.items()})
    await online.run("upgrade", RELEASE, str(new), *flags)
    spec = (await bed.api.get(DEPLOYMENT))["spec"]
    container, _ = spec["template"]["spec"]["containers"]
    assert (spec["replicas"], container["image"]) == (2, f"{IMAGES['extender'][:-1]}f")
    await online.run("uninstall", RELEASE, NAMESPACE)


def links(objects: list[Object]) -> list[str | None]:
    """Of the alerts, in the ConfigMap or the PrometheusRule."""
    found = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    files = found.get(("ConfigMap", NAME))
    rules = yaml.safe_load(files["data"]["alerts.yaml"]) if files else found["PrometheusRule", NAME]["spec"]
    return [
        each["annotations"].get("runbook_url")
        for group in rules["groups"]
        for each in group["rules"]
        if "alert" in each
    ]


async def replicas(bed: Bed) -> int:
    return int((await bed.api.get(DEPLOYMENT))["spec"]["replicas"])


async def installer_command(bed: Bed) -> list[str]:
    (container,) = (await bed.api.get(INSTALLER))["spec"]["template"]["spec"]["containers"]
    return list(container["command"])


async def names(bed: Bed, path: str) -> list[str]:
    found = await bed.api.request("GET", path, params=OURS)
    return [each["metadata"]["name"] for each in found["items"]]
