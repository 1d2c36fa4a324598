"""The document of one namespace: its pods as in that of the cluster, and nothing of others."""

import json
from typing import Any

import msgspec

from gpushare.board.namespace_document import NamespaceState, namespace_document, question_of
from gpushare.board.state import Lost, Origin
from gpushare.model.usage_documents import GpuPod, GpuPodList
from gpushare.overview.explain.advice import Advice
from gpushare.overview.explain.answer import Answer, PodState
from tests.support.builders.usage_documents import GIB, a10, fits, gpu_pod, running_pod

ORIGIN = Origin("https://k8s.example.com:6443", 0)


def shown(*pods: GpuPod, **more: Any) -> dict[str, Any]:
    listed = GpuPodList(items=pods, notes=more.pop("notes", ()))
    seen = NamespaceState(ORIGIN, "team-a", 10, listed, fits(a10()), **more)
    found: dict[str, Any] = json.loads(msgspec.json.encode(namespace_document(seen)))
    return found


def test_use_limit_and_peak_of_a_pod() -> None:
    [pod] = shown(running_pod("web", 14, 12, refusals=3))["pods"]
    assert (pod["units"], pod["gpus"], pod["state"], pod["runs"]) == (14, {"0": 14}, "Running", True)
    assert (pod["usedBytes"], pod["limitBytes"], pod["peakBytes"]) == (12 * GIB, 14 * GIB, int(12.5 * GIB))
    assert (pod["refusals"], pod["reported"]) == (3, True)


def test_without_a_report_numbers_are_unknown() -> None:
    [pod] = shown(running_pod("web", 14, None))["pods"]
    assert (pod["usedBytes"], pod["reported"]) == (None, False)


def test_a_pod_that_cannot_pull_its_image_does_not_run() -> None:
    [pod] = shown(running_pod("web", 14, 0, phase="Pending", state="ErrImagePull"))["pods"]
    assert (pod["state"], pod["runs"]) == ("ErrImagePull", False)


def test_equal_pending_pods_have_one_answer() -> None:
    pods = [gpu_pod(f"train-{number}", 60, ("Job", "train")) for number in range(3)]
    advice = Advice("add-node", "add a node with a GPU of at least 60 units")
    found = Answer("team-a/train-0", PodState.NO_GPU, "no node has them", remedies=(advice,))
    [group] = shown(*pods, answers={question_of(pods[0]): found})["pending"]
    assert [pod["name"] for pod in group["pods"]] == ["train-0", "train-1", "train-2"]
    assert (group["units"], group["reason"]) == (60, "no node has them")
    assert group["remedies"][0]["text"] == advice.text


def test_a_pod_without_an_answer_has_no_reason() -> None:
    [group] = shown(gpu_pod("train", 60))["pending"]
    assert (group["reason"], group["remedies"]) == (None, [])


def test_what_would_fit_and_notes() -> None:
    found = shown(notes=("exporter e-n does not answer",))
    assert found["fits"]["largestFreeUnits"] == 16
    assert found["unit"] == "GiB"
    assert [(each["level"], each["text"]) for each in found["health"]] == [
        ("unknown", "Exporter e-n does not answer.")
    ]


def test_a_lost_api_is_stated() -> None:
    assert shown(lost=Lost(5, "no answer"))["lost"] == {"since": 5, "reason": "no answer"}


def test_finished_pods_do_not_wait() -> None:
    assert shown(gpu_pod("done", 4, phase="Succeeded"))["pending"] == []
