"""The stages of ``doctor --probe``, from the request to the container. Pure.

The chain stops at the first stage that fails; the later ones are unknown.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from gpushare.cli.doctor.probe_pod import UNITS, ProbePod, ProbeRequest, seen_by
from gpushare.cli.doctor.verdict import Check, CheckFinding, CheckVerdict, Status, failed, ok, unknown
from gpushare.contract import AGENT_NAME, ANN_IDX, PRELOAD, RESOURCE_MEM, SYSTEM_NAMESPACE


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """How far the pod came. ``limits`` is whether its node is known to limit containers.

    ``rejection`` is why it was not created, with the next command; ``left`` why it could not be removed.
    """

    request: ProbeRequest
    pod: ProbePod = field(default_factory=ProbePod)
    rejection: str = ""
    remedy: str = ""
    left: str = ""
    limits: bool = False

    @property
    def events(self) -> str:
        """The command that shows the events of the pod, which outlive it."""
        name = self.request.name
        return f"kubectl get events -n {self.request.namespace} --field-selector involvedObject.name={name}"


def created(outcome: ProbeOutcome) -> CheckVerdict:
    """Whether the API server admits the pod."""
    request = outcome.request
    if outcome.rejection:
        can_i = f"kubectl auth can-i create pods -n {request.namespace}"
        cause = f"{request.full_name} was not created: {outcome.rejection}"
        return failed(cause, outcome.remedy or can_i)
    return ok(f"{request.full_name} asks for {request.wish}")


def scheduled(outcome: ProbeOutcome) -> CheckVerdict:
    """Whether a scheduler chose a node, and which one."""
    pod = outcome.pod
    scheduler = pod.spec.scheduler_name or "no scheduler"
    if pod.spec.node_name:
        return ok(f"{scheduler} chose node {pod.spec.node_name}")
    waited = f"in {outcome.request.timeout_s} s"
    if pod.scheduler_message:
        return failed(f"{scheduler} found no node {waited}: {pod.scheduler_message}", outcome.events)
    return failed(
        f"no scheduler has considered it {waited}: is {scheduler}, the schedulerName of the pod, running?",
        f"kubectl get pods -n {SYSTEM_NAMESPACE} -o wide",
    )


def bound(outcome: ProbeOutcome) -> CheckVerdict:
    """Whether the extender chose the GPU."""
    annotations = outcome.pod.metadata.annotations
    if annotations and annotations.idx and annotations.allocation:
        return ok(f"the extender reserved GPU {annotations.idx}")
    return failed(
        f"{outcome.pod.spec.scheduler_name} bound it without the extender: it has no annotation {ANN_IDX}",
        "gpushare scheduler-config prints the configuration that this scheduler needs",
    )


def allocated(outcome: ProbeOutcome) -> CheckVerdict:
    """Whether the node agent answered Allocate."""
    pod, node = outcome.pod, outcome.pod.spec.node_name
    logs = f"kubectl logs -n {SYSTEM_NAMESPACE} -l component={AGENT_NAME} --tail=-1 --prefix | grep allocate"
    if pod.refused:
        text = ": ".join(filter(None, (pod.status.reason, pod.status.message)))
        return failed(f"the kubelet of {node} refused it: {text}", logs)
    if not pod.admitted:
        waited = outcome.request.timeout_s
        return failed(
            f"the kubelet of {node} has not admitted it in {waited} s", f"kubectl describe node {node}"
        )
    return ok(f"the node agent of {node} answered Allocate")


def ran(outcome: ProbeOutcome) -> CheckVerdict:
    """Whether the container ran."""
    pod, image = outcome.pod, outcome.request.image
    if pod.terminated is None:
        text = f" in {outcome.request.timeout_s} s: {pod.held_up}" if pod.held_up else ""
        return failed(
            f"its container with image {image} does not run{text}",
            "kubectl gpushare doctor --probe --image IMAGE, an image with a shell that the node can pull",
        )
    if pod.terminated.exit_code:
        text = f"{pod.terminated.exit_code}: {pod.terminated}"
        return failed(f"its container ended with exit code {text}", outcome.events)
    return ok("its container ran")


def sees(outcome: ProbeOutcome) -> CheckVerdict:
    """Whether the container has the units, the GPU and, where the node limits containers, the limit."""
    message = outcome.pod.terminated.message if outcome.pod.terminated else ""
    seen, node = seen_by(message), outcome.pod.spec.node_name
    if seen.units != str(UNITS):
        shown = seen.units or "nothing"
        return failed(f"its container received {shown} instead of {UNITS} of {RESOURCE_MEM}", outcome.events)
    if outcome.limits and not seen.limited:
        return failed(
            f"its container has no memory limit, or another {PRELOAD}: node {node} limits containers",
            f"kubectl gpushare limits --node {node}",
        )
    if not seen.devices:
        return failed(
            f"its container has GPU {seen.gpu}, but no device file: the runtime of node {node} adds none",
            f"ansible-playbook -i INVENTORY gpushare.nodes.validate, or on node {node}: nvidia-ctk info",
        )
    limit = "a memory limit" if seen.limited else "no memory limit"
    return ok(f"GPU {seen.gpu} as {', '.join(seen.devices)}, with {limit}")


def removed(outcome: ProbeOutcome) -> CheckVerdict:
    """Whether the pod is gone again."""
    if not outcome.left:
        return ok(f"{outcome.request.full_name} was removed")
    command = f"kubectl delete pod -n {outcome.request.namespace} {outcome.request.name}"
    return failed(f"{outcome.request.full_name} was not removed: {outcome.left}", command)


_STAGES: Final = (
    Check("probe-created", "Probe: request", created),
    Check("probe-scheduled", "Probe: scheduler", scheduled),
    Check("probe-bound", "Probe: extender", bound),
    Check("probe-allocated", "Probe: node agent", allocated),
    Check("probe-ran", "Probe: container", ran),
    Check("probe-sees", "Probe: GPU and limit", sees),
)
_REMOVED: Final = Check("probe-removed", "Probe: removal", removed)


def stages(outcome: ProbeOutcome) -> Iterator[CheckFinding]:
    """The verdict of each stage."""
    stopped = ""
    for stage in _STAGES:
        verdict = unknown(f"not reached: {stopped}") if stopped else stage.run(outcome)
        if verdict.status is Status.FAILED:
            stopped = f"stopped at {stage.name}"
        yield CheckFinding(stage, verdict)
    if not outcome.rejection or outcome.left:
        yield CheckFinding(_REMOVED, removed(outcome))
