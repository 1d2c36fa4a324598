"""The usage API: pods of a namespace with their usage, why one waits, and what would fit."""

import asyncio
import json
from typing import Any

import pytest

from gpushare.contract import LABEL_CGPU
from gpushare.metricsapi.paths import usage_request_of
from gpushare.runtime.http import Request
from tests.support.builders.usage_objects import CREATED, GIB, gpu_node, gpu_pod, page
from tests.support.fakes.usage_api import UsageApi

ROOT = "/apis/usage.gpushare.io/v1/namespaces"
TABLE = {b"accept": b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


async def ask(api: UsageApi, path: str, **parameters: str) -> tuple[int, Any]:
    """Status and document of a path under ``ROOT``."""
    return await _ask(api, path, {}, parameters)


async def table_of(api: UsageApi, path: str) -> Any:
    """The table that kubectl gets."""
    status, table = await _ask(api, path, TABLE, {})
    assert status == 200
    return table


async def _ask(
    api: UsageApi, path: str, headers: dict[bytes, bytes], parameters: dict[str, str]
) -> tuple[int, Any]:
    whole = f"{ROOT}/{path}"
    target = usage_request_of(whole)
    assert target
    request = Request("GET", whole, headers, None, keep_alive=True)
    answer = await api.service.respond(request, target, {key: [text] for key, text in parameters.items()})
    return answer.status, json.loads(answer.body)


def cluster(*objects: Any) -> UsageApi:
    api = UsageApi()
    api.see(*objects)
    return api


# --- pods ---------------------------------------------------------------------------------------


async def test_a_pod_with_its_usage() -> None:
    api = cluster(
        gpu_node("n", 14, 14),
        gpu_pod("nb", "a", 4, on="n", card=1, labels={"app": "x"}, spec={"schedulerName": "gpushare"}),
    )
    api.pages["n"] = page(
        (
            *("a", "nb", "main", 1),
            {
                "memory_allocated_bytes": 4 * GIB,
                "memory_used_bytes": GIB,
                "memory_limit_bytes": 4 * GIB,
                "memory_counted_peak_bytes": 2 * GIB,
                "memory_refusals_total": 3,
                "utilization_ratio": 0.25,
            },
        )
    )
    status, pod = await ask(api, "a/gpupods/nb")
    (container,) = pod["containers"]
    assert status == 200
    assert pod["metadata"] == {
        "name": "nb",
        "namespace": "a",
        "creationTimestamp": CREATED,
        "labels": {"app": "x"},
    }
    assert (pod["node"], pod["schedulerName"], pod["phase"], pod["state"]) == (
        *("n", "gpushare"),
        *("Running", "Running"),
    )
    assert (pod["unit"], pod["requestedUnits"], pod["requestedGpus"], pod["gpuIndexes"]) == ("GiB", 4, 1, [1])
    assert (pod["measured"], pod["workload"]) == (True, {"kind": "Pod", "name": "nb"})
    assert container == {
        "name": "main",
        "requestedUnits": 4,
        "gpus": [
            {
                "index": 1,
                "model": "Tesla T4",
                "uuid": "GPU-n-1",
                "allocatedBytes": 4 * GIB,
                "limitBytes": 4 * GIB,
                "noLimit": None,
                "usedBytes": GIB,
                "countedBytes": None,
                "uncountedBytes": None,
                "peakBytes": 2 * GIB,
                "refusals": 3,
                "largestRefusedBytes": None,
                "neededBytes": None,
                "gpuMemoryBytes": 14 * GIB,
                "utilization": 0.25,
            }
        ],
    }


async def test_the_list_has_the_pods_of_the_namespace_that_request_units() -> None:
    api = cluster(
        gpu_node("n", 14),
        gpu_pod("b", "a", on="n", card=0),
        gpu_pod("a", "a"),
        gpu_pod("other", "b", on="n", card=0),
        {"metadata": {"name": "web", "namespace": "a"}, "spec": {"containers": [{"name": "c"}]}},
    )
    api.pages["n"] = page()
    status, found = await ask(api, "a/gpupods")
    assert (status, found["kind"], found["notes"]) == (200, "GpuPodList", [])
    assert [each["metadata"]["name"] for each in found["items"]] == ["a", "b"]
    assert (await ask(api, "none/gpupods"))[1]["items"] == []


async def test_a_pod_of_the_same_name_in_another_namespace_has_its_own_numbers() -> None:
    api = cluster(gpu_node("n", 14), gpu_pod("nb", "a", on="n", card=0), gpu_pod("nb", "b", on="n", card=0))
    api.pages["n"] = page(
        ("a", "nb", "main", 0, {"memory_used_bytes": GIB}),
        ("b", "nb", "main", 0, {"memory_used_bytes": 2 * GIB}),
    )
    for namespace, used in (("a", GIB), ("b", 2 * GIB)):
        _, pod = await ask(api, f"{namespace}/gpupods/nb")
        assert [gpu["usedBytes"] for gpu in pod["containers"][0]["gpus"]] == [used]


async def test_labels_select_pods() -> None:
    api = cluster(gpu_pod("a", "a", labels={"app": "x"}), gpu_pod("b", "a", labels={"app": "y"}))
    _, found = await ask(api, "a/gpupods", labelSelector="app in (y)")
    assert [each["metadata"]["name"] for each in found["items"]] == ["b"]


async def test_an_exporter_that_does_not_answer_is_a_note_and_its_numbers_are_unknown() -> None:
    api = cluster(gpu_node("n", 14), gpu_pod("nb", "a", on="n", card=0))
    _, found = await ask(api, "a/gpupods")
    (pod,) = found["items"]
    (gpu,) = pod["containers"][0]["gpus"]
    assert found["notes"] == ["the exporter of node n does not answer"]
    assert (pod["measured"], gpu["index"], gpu["model"], gpu["usedBytes"]) == (False, 0, "Tesla T4", None)


async def test_a_pod_without_a_limit_has_the_reason() -> None:
    api = cluster(
        gpu_node("n", 14, labels={LABEL_CGPU: "false", "gpushare": "true", "ack.node.gpu.schedule": "share"}),
        gpu_pod("nb", "a", on="n", card=0),
    )
    api.pages["n"] = page(("a", "nb", "main", 0, {"memory_used_bytes": 0}))
    _, pod = await ask(api, "a/gpupods/nb")
    (gpu,) = pod["containers"][0]["gpus"]
    assert (gpu["limitBytes"], gpu["usedBytes"]) == (None, 0)
    assert "its mode is share" in gpu["noLimit"]


async def test_the_state_is_the_word_of_kubectl() -> None:
    waiting = {"containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ErrImagePull"}}}]}
    api = cluster(gpu_node("n", 14), gpu_pod("nb", "a", on="n", card=0, phase="Pending", status=waiting))
    _, pod = await ask(api, "a/gpupods/nb")
    assert (pod["phase"], pod["state"]) == ("Pending", "ErrImagePull")


async def test_an_invalid_request_is_said() -> None:
    api = cluster(gpu_pod("nb", "a", 4, labels={"aliyun.com/gpu-count": "x"}))
    _, pod = await ask(api, "a/gpupods/nb")
    assert (pod["requestedUnits"], pod["requestedGpus"]) == (None, None)
    assert "is not a number of GPUs" in pod["problem"]


async def test_pods_come_and_go() -> None:
    api = cluster(gpu_node("n", 14), gpu_pod("nb", "a"))
    api.see(gpu_pod("nb", "a", on="n", card=0))
    assert (await ask(api, "a/gpupods/nb"))[1]["gpuIndexes"] == [0]
    api.miss("a", "nb")
    assert (await ask(api, "a/gpupods/nb"))[0] == 404
    assert (await ask(api, "a/gpufits", units="14"))[1]["fittingPods"] == 1


# --- explanations -------------------------------------------------------------------------------


async def test_the_explanation_is_that_of_the_tools_without_other_tenants() -> None:
    api = cluster(
        gpu_node("n", 14),
        gpu_pod("trainer", "secret", 10, on="n", card=0),
        gpu_pod("nb", "a", 8),
    )
    status, found = await ask(api, "a/gpupods/nb/explanation")
    assert (status, found["kind"], found["pod"]) == (200, "GpuPodExplanation", "a/nb")
    assert found["state"] == "waits-for-gpu"
    assert found["nodes"][0]["cards"][0]["free"] == 4
    texts = {each["kind"]: each["text"] for each in found["remedies"]}
    assert texts["evict"] == (
        "ask an administrator to make room on node n, where pods of another namespace have the units"
    )
    assert "secret" not in json.dumps(found)


async def test_pods_of_other_tenants_take_cpus_too_and_have_no_name() -> None:
    node = gpu_node("n", 14)
    node["status"]["allocatable"]["cpu"] = "8"
    other, own = gpu_pod("trainer", "secret", None, on="n"), gpu_pod("nb", "a", 8)
    for each, cpus in ((other, "6"), (own, "4")):
        each["spec"]["containers"][0].setdefault("resources", {})["requests"] = {"cpu": cpus}
    _, found = await ask(cluster(node, other, own), "a/gpupods/nb/explanation")
    assert found["summary"] == "it requests 4 CPUs, and node n has 2 free"
    assert "secret" not in json.dumps(found)


async def test_own_pods_are_named() -> None:
    api = cluster(gpu_node("n", 14), gpu_pod("old", "a", 10, on="n", card=0), gpu_pod("nb", "a", 8))
    _, found = await ask(api, "a/gpupods/nb/explanation")
    (evict,) = (each for each in found["remedies"] if each["kind"] == "evict")
    assert evict["command"] == "kubectl delete pod -n a old"


async def test_a_whole_gpu_pod_of_another_namespace_has_no_name() -> None:
    api = cluster(gpu_node("n", 14, whole={0: ("secret/one", "secret/two")}), gpu_pod("nb", "a", 8))
    _, found = await ask(api, "a/gpupods/nb/explanation")
    assert found["nodes"][0]["cards"][0]["verdict"] == (
        "unschedulable until a pod of another namespace is gone, which has a whole GPU"
    )


async def test_the_questions_of_one_namespace_leave_room_for_those_of_others() -> None:
    many = [gpu_pod(f"p{number}", "busy", 20) for number in range(20)]
    api = cluster(gpu_node("n", 14), gpu_pod("nb", "a", 20), *many)
    asked = [ask(api, f"busy/gpupods/p{number}/explanation") for number in range(20)]
    *found, other = await asyncio.gather(*asked, ask(api, "a/gpupods/nb/explanation"))
    refused = [document["message"] for status, document in found if status == 429]
    assert 0 < len(refused) < 20
    assert refused[-1] == ("8 pods of namespace busy are being explained: ask for p19 again in a few seconds")
    assert other[0] == 200
    # They are forgotten once they have an answer.
    assert (await ask(api, "busy/gpupods/none/explanation"))[0] == 404


async def test_a_late_explanation_is_not_the_answer_of_a_cluster_without_the_api(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gpushare.metricsapi.usage._PATIENCE_S", 0.0)
    status, found = await ask(cluster(gpu_node("n", 14), gpu_pod("nb", "a", 20)), "a/gpupods/nb/explanation")
    # `explain` takes 503 for such a cluster, and sends the user to an administrator.
    assert (status, found["message"]) == (
        429,
        "too many pods are being explained: ask for nb again in a minute",
    )


async def test_notes_say_what_could_not_be_read() -> None:
    api = cluster(gpu_node("n", 14), gpu_pod("nb", "a", 20))
    api.notes = ("ConfigMap x has no key gpus",)
    assert (await ask(api, "a/gpupods/nb/explanation"))[1]["notes"] == ["ConfigMap x has no key gpus"]
    assert (await ask(api, "a/gpufits"))[1]["notes"] == ["ConfigMap x has no key gpus"]


async def test_answers_of_an_earlier_time_say_so() -> None:
    api = cluster(gpu_node("n", 14), gpu_pod("nb", "a", 20))
    api.lost_s = 75.0
    for path in ("a/gpupods", "a/gpupods/nb/explanation", "a/gpufits"):
        (note,) = (await ask(api, path))[1]["notes"]
        assert note == "the API server has not been heard for 75 s: pods and nodes are as of then"


# --- what fits ----------------------------------------------------------------------------------


async def test_what_fits_by_kind_of_node() -> None:
    pool = {"eks.amazonaws.com/nodegroup": "gpu", "other": "x"}
    api = cluster(
        gpu_node("n", 14, 14, labels=pool),
        gpu_node("m", 14, 14, labels=pool),
        gpu_node("large", 40, taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]),
        gpu_node("cpu"),
        gpu_pod("nb", "a", 10, on="n", card=0),
    )
    status, found = await ask(api, "a/gpufits", units="7")
    assert (status, found["largestFreeUnits"], found["fittingPods"]) == (200, 40, 2 + 4 + 5)
    assert [
        (each["labels"], each["taints"], each["nodes"], each["openNodes"], each["fittingPods"])
        for each in found["items"]
    ] == [
        ({"eks.amazonaws.com/nodegroup": "gpu"}, [], 2, 2, 6),
        ({}, ["nvidia.com/gpu:NoSchedule"], 1, 1, 5),
    ]
    assert (found["items"][0]["model"], found["items"][0]["unit"], found["items"][0]["gpuMemoryMib"]) == (
        *("Tesla T4", "GiB"),
        14 * 1024,
    )


async def test_a_pod_with_several_gpus_needs_them_on_one_node() -> None:
    api = cluster(gpu_node("n", 14, 14), gpu_node("m", 14))
    _, found = await ask(api, "a/gpufits", units="7", gpus="2")
    assert (found["largestFreeUnits"], found["fittingPods"]) == (14, 2)
    _, found = await ask(api, "a/gpufits", units="1", gpus="3")
    assert (found["largestFreeUnits"], found["fittingPods"]) == (0, 0)


@pytest.mark.parametrize(
    "closed",
    [
        gpu_node("n", 14, unschedulable=True),
        gpu_node("n", 14, labels={LABEL_CGPU: "false"}),
        gpu_node("n", 14, broken=(0,)),
        gpu_node("n", 14, whole={0: ("b/p",)}),
    ],
)
async def test_nothing_fits_where_no_pod_may_go(closed: Any) -> None:
    _, found = await ask(cluster(closed), "a/gpufits")
    assert (found["largestFreeUnits"], found["fittingPods"]) == (0, 0)
    assert found["items"][0]["nodes"] == 1


async def test_a_list_of_unhealthy_gpus_counts() -> None:
    api = cluster(gpu_node("n", 14, 14))
    api.books.change_settings({"n": frozenset({0})}, 0)
    assert (await ask(api, "a/gpufits", units="14"))[1]["fittingPods"] == 1


# --- tables -------------------------------------------------------------------------------------


def shown(table: Any) -> list[dict[str, Any]]:
    names = [each["name"] for each in table["columnDefinitions"]]
    return [dict(zip(names, each["cells"], strict=True)) for each in table["rows"]]


async def test_kubectl_gets_pods_as_a_table() -> None:
    api = cluster(gpu_node("n", 14), gpu_pod("nb", "a", on="n", card=0), gpu_pod("waits", "a", 6))
    api.pages["n"] = page(("a", "nb", "main", 0, {"memory_used_bytes": 3 * GIB, "memory_refusals_total": 0}))
    table = await table_of(api, "a/gpupods")
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    nb, waits = shown(table)
    assert (nb["Name"], nb["Units"], nb["GPUs"], nb["Used"], nb["Refused"], nb["Node"]) == (
        *("nb", "4GiB", "0", "3072MiB"),
        *("0", "n"),
    )
    assert (nb["Peak"], nb["SM"]) == ("<unknown>", "<unknown>")
    assert (waits["Status"], waits["Units"], waits["GPUs"], waits["Node"]) == (
        "Pending",
        "6",
        "<none>",
        "<none>",
    )
    assert table["rows"][0]["object"]["metadata"]["name"] == "nb"


async def test_kubectl_gets_fits_as_a_table() -> None:
    table = await table_of(cluster(gpu_node("n", 14)), "a/gpufits")
    (row,) = shown(table)
    assert (row["Model"], row["Memory"], row["Largest-Free"], row["Fit"]) == (
        "Tesla T4",
        "14336MiB",
        "14GiB",
        14,
    )


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "parameters", "status", "reason"),
    [
        ("a/gpufits", {"units": "4Gi"}, 400, "units='4Gi' is not a number from 1 to 1048575: units are GiB"),
        ("a/gpufits", {"units": "0"}, 400, "units='0' is not a number from 1 to"),
        ("a/gpufits", {"units": "1" * 5000}, 400, "is not a number"),
        ("a/gpufits", {"units": ""}, 400, "units='' is not a number"),
        ("a/gpufits", {"gpus": "129"}, 400, "gpus='129' is not a number from 1 to 128"),
        ("a/gpupods", {"labelSelector": "a b"}, 400, "labelSelector: selector 'a b'"),
        ("a/gpupods", {"fieldSelector": "x=y"}, 400, "fieldSelector is not supported: select by name"),
        ("a/gpupods", {"watch": "true"}, 405, "gpupods cannot be watched: ask again"),
        ("a/gpupods/none", {}, 404, "there is no pod none in namespace a"),
        ("b/gpupods/nb", {}, 404, "there is no pod nb in namespace b"),
        ("a/gpupods/web", {}, 404, "pod web in namespace a requests no units"),
        ("a/gpupods/none/explanation", {}, 404, "there is no pod none in namespace a"),
    ],
)
async def test_an_error_names_the_value_and_the_way_out(
    path: str, parameters: dict[str, str], status: int, reason: str
) -> None:
    web = {"metadata": {"name": "web", "namespace": "a"}, "spec": {"containers": [{"name": "c"}]}}
    code, found = await ask(cluster(gpu_pod("nb", "a"), web), path, **parameters)
    assert (code, found["kind"]) == (status, "Status")
    assert reason in found["message"]


async def test_an_object_that_cannot_be_read_hides_no_other() -> None:
    odd = {"metadata": {"name": "odd", "namespace": "a"}, "spec": {"containers": "x"}}
    api = cluster(gpu_pod("nb", "a"), odd, {"metadata": {"name": "n", "labels": {}}, "spec": {"taints": 1}})
    assert len((await ask(api, "a/gpupods"))[1]["items"]) == 1
    assert api.pods.of("a").keys() == {"nb", "odd"}
