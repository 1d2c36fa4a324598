"""The chart of a release with the real Helm: equal to the stack, and through the life of a release."""

import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from components.checks_monitoring import advice_on
from components.config import Monitoring
from components.manifests import everything
from components.manifests.parts import Object
from components.manifests.prometheus import NAME
from components.stack import load
from gpushare.contract import AUTHORITY_SECRET, EXTENDER_NAME, ISOLATION_INSTALLER_NAME, RUNBOOKS_URL
from gpushare.errors import ConfigError
from gpushare.monitoring.alerts import ALERTS
from release.bundle import install_yaml
from testbed import Bed, DevkitError, SchedulerSpec, Testbed
from tests.builders.chart_values import CASES, IMAGES, PROMETHEUS, RUNBOOKS, SCHEDULER, stack_of
from tests.fixtures import helm
from tests.fixtures.helm import NAMESPACE, RELEASE, Helm

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]

UPGRADE = Path(__file__).parents[2] / "docs/how-to/upgrade.md"
DEPLOYMENT = f"/apis/apps/v1/namespaces/kube-system/deployments/{EXTENDER_NAME}"
INSTALLER = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{ISOLATION_INSTALLER_NAME}"
AUTHORITY = f"/api/v1/namespaces/kube-system/secrets/{AUTHORITY_SECRET}"
BUDGETS = "/apis/policy/v1/namespaces/kube-system/poddisruptionbudgets"
OURS = {"labelSelector": "app=gpushare"}
NO_URLS = (
    "",
    "wiki",
    "ftp://a",
    "http://",
    "https://:9090",
    "http://[::1",
    "http://a:port",
    "http://a b",
    "http://a\xa0b",
)
SHORT = f"registry.example.com/extender@sha256:{'a' * 63}"
SIDECAR = {"exposure": "sidecar", "scheduler": {"image": SCHEDULER}}
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"tolerations": [{"operator": "exists"}]}, "/tolerations/0/operator", "'exists'"),
    ({"tolerations": [{"operator": "Exists", "effect": "NoRun"}]}, "/tolerations/0/effect", "'NoRun'"),
    ({"tolerations": [{"key": "a b", "operator": "Exists"}]}, "/tolerations/0/key", "'a b'"),
    ({"tolerations": [{"key": "a/b/c"}]}, "/tolerations/0/key", "'a/b/c'"),
    ({"tolerations": [{"key": "a", "value": "b c"}]}, "/tolerations/0/value", "'b c'"),
    ({"tolerations": [{"operator": "Exists", "value": "b"}]}, "/tolerations/0/value", "'b'"),
    ({"images": {"extender": "extender:1"}}, "/images/extender", "'extender:1'"),
    ({"images": {"extender": SHORT}}, "/images/extender", f"'{SHORT}'"),
    ({"images": {"extender": f"a b@sha256:{'a' * 64}"}}, "/images/extender", "'a b@sha256:"),
    ({"images": {"extender": None}}, "at '/images'", "extender"),
    (
        {"extender": {"exposure": "sidecar", "scheduler": {"image": "scheduler:v1"}}},
        "/extender/scheduler/image",
        "'scheduler:v1'",
    ),
    ({"monitoring": {"prometheus": {"image": "prom:v1"}}}, "/monitoring/prometheus/image", "'prom:v1'"),
    ({"registry": "http://mirror"}, "/registry", "'http://mirror'"),
    ({"registry": "mirror:0"}, "/registry", "'mirror:0'"),
    ({"registry": "mirror:65536"}, "/registry", "'mirror:65536'"),
    ({"imagePullSecrets": ["pull", "A_b"]}, "/imagePullSecrets/1", "'A_b'"),
    ({"imagePullSecrets": [""]}, "/imagePullSecrets/0", "''"),
    ({"extender": {"tlsSecret": "A_b"}}, "/extender/tlsSecret", "'A_b'"),
    ({"extender": {"tls": "both"}}, "/extender/tls", "'both'"),
    ({"devicePlugin": {"runtimeClass": "A b"}}, "/devicePlugin/runtimeClass", "'A b'"),
    ({"mps": {"enabled": True, "runtimeClass": "A b"}}, "/mps/runtimeClass", "'A b'"),
    ({"monitoring": {"exporter": {"runtimeClass": "a/b"}}}, "/monitoring/exporter/runtimeClass", "'a/b'"),
    ({"devicePlugin": {"kubeletRoot": "var"}}, "/devicePlugin/kubeletRoot", "'var'"),
    ({"isolation": {"kubeletRoot": "/a/../b"}}, "/isolation/kubeletRoot", "'/a/../b'"),
    ({"devicePlugin": {"nodeSelector": {"a b": "c"}}}, "/devicePlugin/nodeSelector", "'a b'"),
    ({"devicePlugin": {"nodeSelector": {"a": "b c"}}}, "/devicePlugin/nodeSelector/a", "'b c'"),
    (
        {"extender": {**SIDECAR, "scheduler": {"image": SCHEDULER, "cpu": "4001m"}}},
        "extender.scheduler.cpuLimit",
        "'4' is less than extender.scheduler.cpu, '4001m'",
    ),
    (
        {"extender": {**SIDECAR, "scheduler": {"image": SCHEDULER, "cpuLimit": "0.4"}}},
        "extender.scheduler.cpuLimit",
        "'0.4' is less than extender.scheduler.cpu, '500m'",
    ),
    (
        {"extender": {**SIDECAR, "scheduler": {"image": SCHEDULER, "memory": "4194305Ki"}}},
        "extender.scheduler.memoryLimit",
        "'4Gi' is less than extender.scheduler.memory, '4194305Ki'",
    ),
]
"""Values, with the name and the value in the error."""
MADE = base64.b64encode(b"made in the cluster").decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def offline(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return await helm.make(tmp_path_factory.mktemp("helm"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed() -> AsyncIterator[Bed]:
    async with Testbed(kwok=False, scheduler=SchedulerSpec(None)) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def online(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return await helm.make(tmp_path_factory.mktemp("helm"), bed.kubeconfig)


def by_identity(objects: list[Object]) -> dict[tuple[str, str], Object]:
    """As JSON, in which a StrEnum is text."""
    return {(each["kind"], each["metadata"]["name"]): each for each in json.loads(json.dumps(objects))}


@pytest.mark.parametrize("case", CASES)
async def test_the_chart_has_the_objects_of_the_stack_with_the_same_settings(
    offline: Helm, case: str
) -> None:
    version, values = CASES[case]
    deployed = by_identity(everything(load(stack_of(version, values))))
    assert by_identity(await offline.rendered(version, values)) == deployed


async def test_the_chart_without_values_has_the_objects_of_install_yaml(offline: Helm) -> None:
    installed = [each for each in yaml.safe_load_all(install_yaml(IMAGES)) if each]
    assert by_identity(await offline.rendered("1.36", {})) == by_identity(installed)


@pytest.mark.parametrize(
    "shape",
    [{}, {"prometheus": {"image": PROMETHEUS}}, {"operator": True}],
    ids=["files", "a Prometheus of the chart", "the Prometheus Operator"],
)
@pytest.mark.parametrize(("url", "page"), [({}, RUNBOOKS_URL), ({"runbooks": RUNBOOKS}, RUNBOOKS)])
async def test_every_alert_links_to_the_runbooks_of_the_values(
    offline: Helm, shape: dict[str, Any], url: dict[str, str], page: str
) -> None:
    objects = await offline.rendered("1.36", {"monitoring": {**shape, **url}})
    assert links(objects) == [f"{page}#{each.anchor}" for each in ALERTS]
    assert (RUNBOOKS_URL in json.dumps(objects)) == (page == RUNBOOKS_URL)


async def test_the_chart_passes_the_lint_of_helm(offline: Helm) -> None:
    assert "0 chart(s) failed" in await offline.run(
        "lint", "--strict", "--kube-version=v1.36.0", str(offline.chart)
    )


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"extender": {"exposure": "nodeport"}}, "extender"),
        ({"extender": {"replicas": 4}}, "replicas"),
        ({"monitoring": {"exporter": {"intervalSeconds": 50}}}, "intervalSeconds"),
        *(({"monitoring": {"runbooks": url}}, "/monitoring/runbooks") for url in NO_URLS),
        ({"extendr": {}}, "extendr"),
        ({"monitoring": None}, "missing property 'monitoring'"),
        ({"extender": {"scheduler": None}}, "missing property 'scheduler'"),
        ({"extender": {"cpu": "x"}}, "/extender/cpu"),
        ({"extender": {"scheduler": {"memoryLimit": "4G"}}}, "/extender/scheduler/memoryLimit"),
        ({"devicePlugin": {"memory": "-1Gi"}}, "/devicePlugin/memory"),
        ({"monitoring": {"prometheus": {"storage": "20"}}}, "/monitoring/prometheus/storage"),
        ({"monitoring": {"prometheus": {"retention": "a week"}}}, "/monitoring/prometheus/retention"),
        (
            {"extender": {"scheduler": {"image": SCHEDULER}}},
            "extender.scheduler: not allowed with exposure node-port",
        ),
        (
            {
                "devicePlugin": {"nodeSelector": {"cgpu": "true", "gpushare": None}},
                "isolation": {"enabled": False},
            },
            "isolation.enabled: ",
        ),
        (
            {"devicePlugin": {"nodeSelector": {"ack.node.gpu.schedule": "mps", "gpushare": None}}},
            "mps.enabled: ",
        ),
        (
            {"devicePlugin": {"nodeSelector": {"cgpu": "true"}}},
            "devicePlugin.nodeSelector: two mode labels, gpushare=true and cgpu=true; keep one",
        ),
        (
            {"devicePlugin": {"nodeSelector": {"cgpu": "true", "ack.node.gpu.schedule": "cgpu"}}},
            "cgpu=true and ack.node.gpu.schedule=cgpu; keep one, and set the others to null",
        ),
        ({"devicePlugin": {"nodeSelector": {"gpushare": "false"}}}, "devicePlugin.nodeSelector: "),
        ({"extender": {"exposure": "sidecar"}}, "extender.scheduler.image: missing"),
        (
            {
                "extender": {
                    "exposure": "sidecar",
                    "replicas": 2,
                    "tls": "none",
                    "scheduler": {"image": SCHEDULER},
                }
            },
            "sidecar with 2 replicas needs certificates",
        ),
    ],
)
async def test_wrong_values_are_errors_that_name_the_key(
    offline: Helm, values: dict[str, Any], problem: str
) -> None:
    with pytest.raises(DevkitError, match=problem):
        await offline.rendered("1.36", values)


@pytest.mark.parametrize(("values", "where", "value"), REFUSED)
async def test_the_chart_refuses_what_the_stack_refuses_with_name_and_value(
    offline: Helm, values: dict[str, Any], where: str, value: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(value)):
        load(stack_of("1.36", values))
    with pytest.raises(DevkitError) as refused:
        await offline.rendered("1.36", values)
    (line,) = (each for each in str(refused.value).splitlines() if where in each)
    assert value in line.partition(where)[2]


@pytest.mark.parametrize(
    ("toleration", "problem"),
    [
        ({"value": "gpu"}, "at '/tolerations/0': missing property 'key'"),
        ({"key": "", "value": "gpu"}, "at '/tolerations/0/key': minLength: got 0, want 1"),
        (
            {"key": "pool", "operator": "Exists", "effects": "NoSchedule"},
            "at '/tolerations/0': additional properties 'effects' not allowed",
        ),
    ],
)
async def test_a_toleration_has_the_keys_of_a_stack(
    offline: Helm, toleration: dict[str, str], problem: str
) -> None:
    values = {"tolerations": [toleration]}
    with pytest.raises(ConfigError, match=r"tolerations\[0\]"):
        load(stack_of("1.36", values))
    with pytest.raises(DevkitError, match=re.escape(problem)):
        await offline.rendered("1.36", values)


@pytest.mark.parametrize(
    "values",
    [
        {
            "devicePlugin": {
                "nodeSelector": {"cgpu": "true", "cgpu.disable.isolation": "true", "gpushare": None}
            },
            "isolation": {"enabled": False},
        },
        {
            "devicePlugin": {"nodeSelector": {"ack.node.gpu.schedule": "mps", "gpushare": None}},
            "mps": {"enabled": True},
        },
        {"extender": {"cpu": "0.5"}, "monitoring": {"prometheus": {"image": PROMETHEUS, "retention": "1y"}}},
        {"tolerations": [], "registry": "mirror:65535/a_b/c.d", "isolation": {"kubeletRoot": "/.../..a/./b"}},
        {"extender": {**SIDECAR, "scheduler": {"image": SCHEDULER, "cpu": "4000m", "memory": "4096Mi"}}},
    ],
)
async def test_unusual_values_that_the_stack_accepts_are_accepted(
    offline: Helm, values: dict[str, Any]
) -> None:
    assert await offline.rendered("1.36", values)


@pytest.mark.parametrize("url", ["http://a", "https://[::1]:80/b", "https://wiki.internal/grün?a=b"])
async def test_urls_of_the_stack_are_urls_of_the_chart(offline: Helm, url: str) -> None:
    values = {"monitoring": {"runbooks": url}}
    deployed = by_identity(everything(load(stack_of("1.36", values))))
    assert by_identity(await offline.rendered("1.36", values)) == deployed


async def test_an_older_cluster_is_an_error(offline: Helm) -> None:
    with pytest.raises(DevkitError, match=r"requires kubeVersion: >=1\.30"):
        await offline.rendered("1.29", {})


@pytest.mark.parametrize(
    ("values", "settings"),
    [
        ({}, Monitoring()),
        ({"runbooks": "http://example.com/gpus"}, Monitoring(runbooks="http://example.com/gpus")),
        ({"runbooks": RUNBOOKS}, Monitoring(runbooks=RUNBOOKS)),
        ({"enabled": False}, None),
    ],
    ids=["default", "another placeholder", "set", "no alerts"],
)
async def test_helm_warns_as_pulumi_of_alerts_that_link_to_a_placeholder(
    online: Helm, values: dict[str, Any], settings: Monitoring | None
) -> None:
    flags = (NAMESPACE, "--dry-run=server", online.values({"monitoring": values}))
    _, notes = (await online.run("install", RELEASE, str(online.chart), *flags)).split("\nNOTES:\n")
    warnings = advice_on(settings) if settings else []
    assert re.findall("^Warning: (.*)$", notes, re.MULTILINE) == warnings


async def test_a_release_is_installed_upgraded_rolled_back_and_removed(bed: Bed, online: Helm) -> None:
    chart = str(online.chart)
    await online.run("install", RELEASE, chart, NAMESPACE)
    assert await replicas(bed) == 1
    patch = {"data": {"ca.key": MADE}}
    await bed.api.request("PATCH", AUTHORITY, patch, content_type="application/merge-patch+json")

    await online.run("upgrade", RELEASE, chart, NAMESPACE, "--set=extender.replicas=3")
    assert (await replicas(bed), await names(bed, BUDGETS)) == (3, [EXTENDER_NAME])

    await online.run("rollback", RELEASE, "1", NAMESPACE)
    assert (await replicas(bed), await names(bed, BUDGETS)) == (1, [])
    assert (await bed.api.get(AUTHORITY))["data"] == {"ca.key": MADE}

    await online.run("upgrade", RELEASE, chart, NAMESPACE, "--set=isolation.state=absent")
    assert "uninstall" in await installer_command(bed)

    await online.run("uninstall", RELEASE, NAMESPACE)
    assert await names(bed, "/apis/apps/v1/namespaces/kube-system/deployments") == []
    assert (await bed.api.get(AUTHORITY))["data"] == {"ca.key": MADE}

    await online.run("install", RELEASE, chart, NAMESPACE)
    assert (await bed.api.get(AUTHORITY))["data"] == {"ca.key": MADE}


async def test_an_upgrade_as_documented_keeps_the_values_and_brings_the_new_images(
    bed: Bed, online: Helm, tmp_path: Path
) -> None:
    (command,) = re.findall(r"^\| Helm \| `helm upgrade (.*)` \|$", UPGRADE.read_text(), re.MULTILINE)
    _, _, *flags = command.split()
    await online.run(
        "upgrade", "--install", RELEASE, str(online.chart), NAMESPACE, "--set=extender.replicas=2"
    )
    new = helm.archive(tmp_path, {name: f"{image[:-1]}f" for name, image in IMAGES.items()})
    await online.run("upgrade", RELEASE, str(new), *flags)
    spec = (await bed.api.get(DEPLOYMENT))["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    assert (spec["replicas"], container["image"]) == (2, f"{IMAGES['extender'][:-1]}f")
    await online.run("uninstall", RELEASE, NAMESPACE)


def links(objects: list[Object]) -> list[str]:
    """Of the alerts, in the ConfigMap or the PrometheusRule."""
    found = by_identity(objects)
    files = found.get(("ConfigMap", NAME))
    rules = yaml.safe_load(files["data"]["alerts.yaml"]) if files else found["PrometheusRule", NAME]["spec"]
    return [
        each["annotations"]["runbook_url"]
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
