"""Each stage of ``doctor --probe``: where the chain stops, why, and what to do next."""

from typing import Any

import msgspec
import pytest

from gpushare.cli.doctor.probe_checks import ProbeOutcome, stages
from gpushare.cli.doctor.probe_pod import ProbePod, ProbeRequest
from gpushare.contract import PRELOAD

REQUEST = ProbeRequest("ml", "gpushare-probe-1", "example.com/agent:1", None, core=False, timeout_s=60)
MESSAGE = "units=1\ngpu=0\nmps=\nlimit=yes\ndevice=/dev/nvidia0\n"
ANNOTATIONS = {
    "ALIYUN_COM_GPU_MEM_IDX": "0",
    "scheduler.framework.gpushare.allocation": '{"0":{"0":1}}',
}


def pod(
    *,
    node: str = "gpu-1",
    annotations: dict[str, str] | None = None,
    state: dict[str, Any] | None = None,
    **status: Any,
) -> ProbePod:
    """A pod of the stage that its state shows."""
    statuses = [{"state": state}] if state is not None else None
    found = {
        "metadata": {"annotations": ANNOTATIONS if annotations is None else annotations},
        "spec": {"schedulerName": "default-scheduler", "nodeName": node},
        "status": {"containerStatuses": statuses, **status},
    }
    return msgspec.convert(found, ProbePod)


def ended(message: str = MESSAGE, code: int = 0, reason: str = "Completed") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def unscheduled(message: str) -> dict[str, Any]:
    return {"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}


def test_a_pod_that_comes_through_is_ok_at_every_stage() -> None:
    found = {
        each.check.name: each.verdict
        for each in stages(ProbeOutcome(REQUEST, pod(state=ended()), limits=True))
    }
    assert {verdict.status for verdict in found.values()} == {"ok"}
    assert found["probe-scheduled"].cause == "default-scheduler chose node gpu-1"
    assert found["probe-bound"].cause == "the extender reserved GPU 0"
    assert found["probe-sees"].cause == "GPU 0 as /dev/nvidia0, with a memory limit"
    assert found["probe-removed"].cause == "ml/gpushare-probe-1 was removed"


STOPS = [
    (
        ProbeOutcome(REQUEST, rejection="exceeded quota"),
        "probe-created: ml/gpushare-probe-1 was not created: exceeded quota",
        "kubectl auth can-i create pods -n ml",
    ),
    (
        ProbeOutcome(REQUEST, pod(node="", **unscheduled("0/1 nodes are available"))),
        "probe-scheduled: default-scheduler found no node in 60 s: 0/1 nodes are available",
        "kubectl get events -n ml --field-selector involvedObject.name=gpushare-probe-1",
    ),
    (
        ProbeOutcome(REQUEST, pod(node="")),
        (
            "probe-scheduled: no scheduler has considered it in 60 s: is default-scheduler, the "
            "schedulerName of the pod, running?"
        ),
        "kubectl get pods -n kube-system -o wide",
    ),
    (
        ProbeOutcome(REQUEST, pod(annotations={}, state=ended())),
        (
            "probe-bound: default-scheduler bound it without the extender: it has no annotation "
            "ALIYUN_COM_GPU_MEM_IDX"
        ),
        "gpushare scheduler-config prints",
    ),
    (
        ProbeOutcome(
            REQUEST, pod(phase="Failed", reason="UnexpectedAdmissionError", message="Allocate failed: x")
        ),
        "probe-allocated: the kubelet of gpu-1 refused it: UnexpectedAdmissionError: Allocate failed: x",
        "kubectl logs -n kube-system -l component=gpushare-device-plugin",
    ),
    (
        ProbeOutcome(
            REQUEST, pod(phase="Failed", reason="OutOfcpu", state=ended("", 137, "ContainerStatusUnknown"))
        ),
        "probe-allocated: the kubelet of gpu-1 refused it: OutOfcpu",
        "kubectl logs -n kube-system",
    ),
    (
        ProbeOutcome(REQUEST, pod()),
        "probe-allocated: the kubelet of gpu-1 has not admitted it in 60 s",
        "kubectl describe node gpu-1",
    ),
    (
        ProbeOutcome(REQUEST, pod(state={"waiting": {"reason": "ErrImagePull", "message": "denied"}})),
        "probe-ran: its container with image example.com/agent:1 does not run in 60 s: ErrImagePull: denied",
        "kubectl gpushare doctor --probe --image IMAGE",
    ),
    (
        ProbeOutcome(REQUEST, pod(state=ended("", 127, "StartError"))),
        "probe-ran: its container ended with exit code 127: StartError",
        "kubectl get events -n ml",
    ),
    (
        ProbeOutcome(REQUEST, pod(state=ended(""))),
        "probe-sees: its container received nothing instead of 1 of aliyun.com/gpu-mem",
        "kubectl get events -n ml",
    ),
    (
        ProbeOutcome(REQUEST, pod(state=ended("units=1\ngpu=0\ndevice=/dev/nvidia0")), limits=True),
        f"probe-sees: its container has no memory limit, or another {PRELOAD}: node gpu-1 limits containers",
        "kubectl gpushare limits --node gpu-1",
    ),
    (
        ProbeOutcome(REQUEST, pod(state=ended("units=1\ngpu=0\n"))),
        "probe-sees: its container has GPU 0, but no device file: the runtime of node gpu-1 adds none",
        "ansible-playbook -i INVENTORY gpushare.nodes.validate",
    ),
]


@pytest.mark.parametrize(("outcome", "stop", "command"), STOPS, ids=[stop for _, stop, _ in STOPS])
def test_a_stage_that_fails_is_named_with_cause_and_command(
    outcome: ProbeOutcome, stop: str, command: str
) -> None:
    found = [each for each in stages(outcome) if each.check.name != "probe-removed"]
    [failure] = [each for each in found if each.verdict.status == "failed"]
    assert f"{failure.check.name}: {failure.verdict.cause}" == stop
    assert failure.verdict.command.startswith(command)
    at = found.index(failure)
    assert {each.verdict.status for each in found[:at]} <= {"ok"}
    assert {(each.verdict.status, each.verdict.cause) for each in found[at + 1 :]} <= {
        ("unknown", f"not reached: stopped at {failure.check.name}")
    }


def test_a_pod_that_was_not_removed_is_named_with_the_command() -> None:
    *_, last = stages(ProbeOutcome(REQUEST, pod(state=ended()), left="pods is forbidden"))
    assert last.verdict.cause == "ml/gpushare-probe-1 was not removed: pods is forbidden"
    assert last.verdict.command == "kubectl delete pod -n ml gpushare-probe-1"


def test_a_pod_that_was_never_created_needs_no_removal() -> None:
    assert "probe-removed" not in [
        each.check.name for each in stages(ProbeOutcome(REQUEST, rejection="denied"))
    ]
