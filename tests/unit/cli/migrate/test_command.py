"""``kubectl gpushare migrate``: the report and the manifests, of files and of a cluster."""

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from aiohttp import web

from gpushare.cli.lib.missing_right import VIEWERS
from tests.support.builders.api_objects import Json, literal, node, pod
from tests.unit.cli.fakes import Api, call, documented, kubeconfig, refused, served, shown
from tests.unit.cli.migrate.test_hami import container, deployment

IMAGES = {"hami": "projecthami/hami:v2.10.0", "pair": "acs/k8s-gpushare-plugin:v2"}
LIVE = {"uid": "1", "resourceVersion": "2", "managedFields": [], "creationTimestamp": "2026-11-24"}


def installation(name: str, image: str) -> Json:
    spec = {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}
    return {"kind": "DaemonSet", "metadata": {"name": name, "namespace": "kube-system"}, "spec": spec}


def created(kind: str, manifest: Json) -> Json:
    owner = {"controller": True, "kind": kind, "name": "maker"}
    return manifest | {"metadata": {"name": "made", "namespace": "ml", "ownerReferences": [owner]}}


def _asking(resource: str) -> Json:
    return {"containers": [{"name": "main", "resources": {"limits": {resource: 4}}}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    def write(name: str, *manifests: Json) -> None:
        (tmp_path / name).write_text("---\n".join(yaml.safe_dump(each) for each in manifests))

    write("hami.yaml", installation("hami-device-plugin", IMAGES["hami"]))
    write("pair.yml", installation("gpushare-device-plugin-ds", IMAGES["pair"]))
    write("web.yaml", deployment(container(gpumem=3000)), {"kind": "Pod", **pod("notebook", None, 4)})
    (tmp_path / "list.json").write_text(json.dumps({"kind": "List", "items": [_whole()]}))
    (tmp_path / "notes.txt").write_text("{{ no YAML }}")
    return tmp_path


def _whole() -> Json:
    return deployment(container(gpu=1)) | {"metadata": {"name": "train"}}


async def test_the_report_of_files(api: Api, folder: Path) -> None:
    out = await shown(api, "migrate", "-f", str(folder))
    assert out == literal(
        """
        Aliyun gpushare:
          changes        DaemonSet kube-system/gpushare-device-plugin-ds
                           replaced in place: gpushare has the same name and flags, or adopts it (gpushare:adopt)
          stays          Pod default/notebook
                           its aliyun.com/gpu-mem means the same

        HAMi:
          changes        DaemonSet kube-system/hami-device-plugin
                           remove it from a node before gpushare shares the GPUs of the node: two device plugins would allocate the same GPU twice
          stays          Deployment train
                           whole GPUs (nvidia.com/gpu), on a node that does not share
          changes        Deployment web
                           container main: nvidia.com/gpumem=3000 → aliyun.com/gpu-mem=3

        2 stay, 3 change, 0 not supported
        Converted manifests (-o yaml): 1
        """  # noqa: E501 - a report
    )


@pytest.mark.parametrize("installed", [True, False])
async def test_whole_gpus_of_hamis_scheduler_change_and_are_converted(
    api: Api, tmp_path: Path, *, installed: bool
) -> None:
    manifest = deployment(container(gpu=1), schedulerName="hami-scheduler")
    hami = [installation("hami-device-plugin", IMAGES["hami"])] if installed else []
    (tmp_path / "a.yaml").write_text("---\n".join(yaml.safe_dump(each) for each in (manifest, *hami)))
    found = await documented(api, "migrate", "-f", str(tmp_path), "-o", "json")
    assert found["findings"][0] == {
        "system": "HAMi",
        "subject": "Deployment web",
        "verdict": "changes",
        "text": "schedulerName hami-scheduler → the default",
    }
    (converted,) = found["converted"]
    pod = converted["spec"]["template"]["spec"]
    assert pod == {"containers": [container(gpu=1)]}


async def test_whole_gpus_without_hami_are_no_finding(api: Api, tmp_path: Path) -> None:
    manifest = deployment(container(gpu=1), nodeSelector={"gpu": "on"})
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(manifest))
    code, out, err = await call(api, "migrate", "-f", str(tmp_path))
    assert (code, out, err) == (
        0,
        "No object of the Aliyun gpushare pair, of ACK or of HAMi was found.\n",
        "",
    )


async def test_only_converted_manifests_are_printed(api: Api, folder: Path) -> None:
    out = await shown(api, "migrate", "-f", str(folder), "-o", "yaml")
    (web_deployment,) = yaml.safe_load_all(out)
    assert web_deployment["metadata"] == {"name": "web"}


async def test_a_template_without_metadata_is_converted(api: Api, tmp_path: Path) -> None:
    manifest = deployment(container(gpumem=1000))
    manifest["spec"]["template"]["metadata"] = None
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(manifest))
    out = await shown(api, "migrate", "-f", str(tmp_path), "-o", "yaml")
    assert "aliyun.com/gpu-mem: 1\n" in out


async def test_dates_and_words_keep_their_meaning_for_kubectl(api: Api, tmp_path: Path) -> None:
    manifest = deployment(container(gpumem=1) | {"env": [{"name": "ACCEPT_EULA", "value": "@"}]})
    text = yaml.safe_dump(manifest | {"metadata": {"name": "web", "annotations": {"date": "#", "time": "%"}}})
    text = text.replace("'@'", '"Y"').replace("'#'", "2024-13-45").replace("'%'", "12:30:00")
    text = text.replace("gpumem: 1", "gpumem: 1e3")
    (tmp_path / "a.yaml").write_text(text)
    out = await shown(api, "migrate", "-f", str(tmp_path), "-o", "yaml")
    assert "date: '2024-13-45'\n    time: '12:30:00'\n" in out
    assert "value: 'Y'\n" in out
    assert "aliyun.com/gpu-mem: 1\n" in out
    assert (await call(api, "migrate", "-f", str(tmp_path), "-o", "json"))[0] == 0


async def test_rendered_manifests_come_from_standard_input(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    text = yaml.safe_dump(deployment(container(gpumem=1000)))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    out = await shown(api, "migrate", "-f", "-", "-o", "yaml")
    assert "aliyun.com/gpu-mem: 1\n" in out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"plain text")))
    assert await call(api, "migrate", "-f", "-") == (
        1,
        "",
        "Error: standard input has no Kubernetes objects\n",
    )


@pytest.mark.parametrize("flags", [["-A"], ["-n", "ml"]])
async def test_namespaces_select_objects_of_the_cluster_only(
    api: Api, folder: Path, flags: list[str]
) -> None:
    err = await refused(api, "migrate", "-f", str(folder), *flags, code=2)
    assert "--filename reads files instead of the cluster: leave out --namespace and --all-namespaces" in err


async def test_a_manifest_that_is_left_out_is_an_error(api: Api, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump(deployment(container(gpucores=10))))
    err = await refused(api, "migrate", "-f", str(path), "-o", "yaml")
    assert err.startswith("warning: Deployment web: not supported: container main: without nvidia.com/gpumem")
    found = await documented(api, "migrate", "-f", str(path), "-o", "json")
    assert (found["kind"], found["notConverted"]) == ("MigrationReport", ["Deployment web"])


@pytest.mark.parametrize(
    ("manifest", "subject", "text"),
    [
        (
            {
                "kind": "ResourceQuota",
                "metadata": {"name": "q"},
                "spec": {"hard": {"limits.nvidia.com/gpumem": 1}},
            },
            "ResourceQuota q",
            "its kind is not converted: change the resources of HAMi in it by hand",
        ),
        (
            created("RayCluster", {"kind": "Pod", "spec": {"containers": [container(gpumem=1)]}}),
            "RayCluster ml/maker",
            "its kind is not converted: change the resources of HAMi in it by hand",
        ),
        (
            deployment(container(gpumem=1, gpucores=60), container("b", gpumem=1, gpucores=60)),
            "Deployment web",
            "limits aliyun.com/gpu-core.percentage=120 exceed 100 on each of 1 GPUs",
        ),
        (
            {"kind": "Pod", **pod("a", None, "4Gi")},
            "Pod default/a",
            "aliyun.com/gpu-mem counts GiB by default: write 4, not 4Gi",
        ),
        (
            {"kind": "Pod", **pod("a", None, 4, gpus=1)},
            "Pod default/a",
            (
                "container main: remove nvidia.com/gpu: aliyun.com/gpu-mem alone gives it a part of a GPU, "
                "and nodes that share their GPUs offer no whole ones"
            ),
        ),
        (
            {"kind": "Pod", "metadata": {"name": "a"}, "spec": _asking("aliyun.com/gpumem")},
            "Pod a",
            "container main: did you mean aliyun.com/gpu-mem? aliyun.com/gpumem is no resource of gpushare",
        ),
    ],
)
async def test_what_is_not_supported_has_a_reason(
    api: Api, tmp_path: Path, manifest: Json, subject: str, text: str
) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(manifest))
    (finding,) = (await documented(api, "migrate", "-f", str(tmp_path), "-o", "json"))["findings"]
    assert (finding["subject"], finding["verdict"], finding["text"]) == (subject, "not supported", text)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{{ .Values.x }}\na: b", " is not YAML (render templates first): "),
        ("kind: Pod\na: &a [*a]", "a value contains itself"),
        (None, "cannot read "),
        ("plain text", "a.yaml has no Kubernetes objects\n"),
        ("a: 1", "a.yaml has no Kubernetes objects\n"),
    ],
)
async def test_an_unreadable_file_is_an_error(
    api: Api, tmp_path: Path, content: str | None, text: str
) -> None:
    path = tmp_path / "a.yaml"
    if content:
        path.write_text(content)
    err = await refused(api, "migrate", "-f", str(path))
    assert err.startswith("Error: ")
    assert text in err


async def test_a_folder_without_manifests_is_an_error(api: Api, tmp_path: Path) -> None:
    code, _, err = await call(api, "migrate", "-f", str(tmp_path))
    assert (code, err) == (1, f"Error: {tmp_path} has no files .yaml, .yml, .json\n")


class Cluster:
    """A FAKE of the API server with lists by the last part of their path; None is forbidden."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Json] | None] = {}
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        found = self.lists.get(request.path.rpartition("/")[2], [])
        if found is None:
            return web.json_response({"message": "may not list", "reason": "Forbidden"}, status=403)
        return web.json_response({"items": found})


@pytest_asyncio.fixture
async def cluster(api: Api, tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster()
    application = web.Application()
    application.router.add_get("/{path:.*}", made.answer)
    async with served(application) as url:
        api.kubeconfig = kubeconfig(tmp_path, url)
        yield made


async def test_a_cluster_is_read_and_its_manifests_can_be_applied(api: Api, cluster: Cluster) -> None:
    live = deployment(container(gpumem=1024)) | {
        "metadata": {"name": "web", **LIVE},
        "status": {"replicas": 1},
    }
    del live["kind"]
    cluster.lists = {
        "nodes": [
            node("n1", annotations={"hami.io/node-handshake": "x"}),
            node("n2", labels={"gpushare": "true"}),
        ],
        "deployments": [live],
        "pods": [created("ReplicaSet", {"spec": {"containers": [container(gpumem=1024)]}})],
    }
    found = await documented(api, "migrate", "-A", "-o", "json")
    assert [(each["subject"], each["verdict"]) for each in found["findings"]] == [
        ("Node n1", "changes"),
        ("Node n2", "stays"),
        ("Deployment web", "changes"),
    ]
    (manifest,) = found["converted"]
    assert (manifest["apiVersion"], manifest["kind"], manifest["metadata"]) == (
        *("apps/v1", "Deployment"),
        {"name": "web"},
    )
    assert "status" not in manifest


async def test_objects_that_are_none_are_no_traceback(api: Api, cluster: Cluster) -> None:
    junk: list[Any] = [None, 7, [], {}, {"metadata": None}, {"metadata": 7, "spec": 7}]
    cluster.lists = dict.fromkeys(("nodes", "pods", "deployments", "jobs"), junk)
    await shown(api, "migrate", "-A")


@pytest.mark.parametrize("odd", [[], {}, ["Complete"], None])
async def test_a_condition_of_another_type_ends_nothing(api: Api, cluster: Cluster, odd: Any) -> None:
    status = {"conditions": [{"type": odd, "status": "True"}]}
    cluster.lists = {"jobs": [deployment(container(gpumem=1)) | {"kind": "Job", "status": status}]}
    out = await shown(api, "migrate", "-A")
    assert "Converted manifests (-o yaml): 1" in out


async def test_what_has_ended_is_left_out(api: Api, cluster: Cluster) -> None:
    ended = {"conditions": [{"type": "Complete", "status": "True"}]}
    cluster.lists = {"jobs": [deployment(container(gpumem=1)) | {"kind": "Job", "status": ended}]}
    assert "was found" in (await call(api, "migrate", "-A"))[1]


async def test_what_may_not_be_listed_is_named(api: Api, cluster: Cluster) -> None:
    cluster.lists = {"nodes": None}
    code, out, err = await call(api, "migrate", "-n", "ml")
    assert (code, out) == (0, "No object of the Aliyun gpushare pair, of ACK or of HAMi was found.\n")
    assert err.startswith("warning: nodes are left out: ")
    assert err.endswith("warning: only namespace ml was searched; -A selects all\n")
    assert "/apis/apps/v1/namespaces/ml/deployments" in cluster.asked


@pytest.mark.parametrize("output", [[], ["-o", "json"], ["-o", "yaml"]])
async def test_an_account_that_may_list_nothing_has_no_report(
    api: Api, cluster: Cluster, output: list[str]
) -> None:
    kinds = ["nodes", "pods", "resourcequotas", "daemonsets", "deployments", "replicasets", "statefulsets"]
    cluster.lists = dict.fromkeys([*kinds, "cronjobs", "jobs"])
    err = await refused(api, "migrate", "-A", *output)
    assert err == f"Error: you may list none of the kinds that migrate reports: may not list.\n{VIEWERS}\n"


@pytest.mark.parametrize(("plural", "code"), [("deployments", 1), ("pods", 1), ("nodes", 0)])
async def test_a_kind_of_workloads_that_may_not_be_listed_is_an_error_for_manifests(
    api: Api, cluster: Cluster, plural: str, code: int
) -> None:
    cluster.lists = {plural: None}
    found, _, err = await call(api, "migrate", "-A", "-o", "yaml")
    assert found == code
    assert err.startswith(f"warning: {plural} are left out: ")
    assert (await call(api, "migrate", "-A", "-o", "json"))[0] == 0
