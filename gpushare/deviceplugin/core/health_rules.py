"""When a GPU takes no pods: one rule per function, all in ``RULES``. Pure.

A rule reads the ``GpuCondition`` of one GPU and returns why it takes no pods, None if it does not apply.
What changes a condition over time belongs in ``health``, reading the driver in ``adapters.nvml.facts``.

The recovery action (NVML field 230, from driver 565 on) is the driver's own judgement of all errors that it
reported, and lasts until the reset: where a GPU has one, XID errors and ECC counters are not judged here.
Sources, read in November 2026: NVIDIA's "GPU Memory Error Management", section "Error Recovery and Response
Flags", and the change log of NVML (565: field and event; 570: drain and reset; 615: bus reset and system
reboot).

A pending row remapping is no reason: by the first of these, new work can be started on such a GPU, and the
row is replaced at the next reset.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from gpushare.deviceplugin.core.xids import RESET_XIDS
from gpushare.model.hardware import Fault, GpuFacts, RecoveryAction

_REMEDIES: Final[Mapping[int, str]] = {
    RecoveryAction.GPU_RESET: "a reset of the GPU",
    RecoveryAction.NODE_REBOOT: "a reboot of the node",
    RecoveryAction.DRAIN_P2P: "the end of all programs that use peer-to-peer access",
    RecoveryAction.DRAIN_AND_RESET: "the end of all programs on the GPU, then a reset of it",
    RecoveryAction.RECOVER_IMEX_DOMAIN: "a recovery of its IMEX domain",
    RecoveryAction.BUS_RESET: "a reset of its PCIe bus",
    RecoveryAction.SYSTEM_REBOOT: "a reboot of the system",
}


@dataclass(frozen=True, slots=True)
class GpuCondition:
    """What is known of one GPU.

    ``facts`` are the last complete answers of the driver, None before the first. ``failures`` is the number
    of polls in a row without an answer, ``unanswered`` the failure that has lasted too long, until the GPU
    has answered for a while; ``since`` is the time of the first of these answers, in seconds. ``fault`` is
    the most serious XID error since the driver last asked for no recovery.
    """

    facts: GpuFacts | None = None
    failures: int = 0
    unanswered: str | None = None
    since: float | None = None
    fault: Fault | None = None

    @property
    def recovery(self) -> int | None:
        """The recovery action; None if there is none, or if the GPU does not answer now."""
        return None if self.facts is None or self.failures else self.facts.recovery


def does_not_answer(condition: GpuCondition) -> str | None:
    """Calls that work on every GPU fail."""
    return condition.unanswered


def needs_recovery(condition: GpuCondition) -> str | None:
    """The driver asks for a recovery action. A GPU that does not answer keeps its last one."""
    action = condition.facts.recovery if condition.facts else None
    if not action:
        return None
    remedy = _REMEDIES.get(action, "an action that this version does not know")
    cause = f", after {_xid(condition.fault)}" if condition.fault else ""
    return f"the driver asks for {remedy} (recovery action {action}){cause}"


def cannot_remap(condition: GpuCondition) -> str | None:
    """A defective memory row could not be replaced: the GPU has no spare rows left."""
    failed = condition.facts is not None and condition.facts.remap_failed
    return "a memory row could not be remapped: the GPU must be replaced" if failed else None


def has_uncorrected_errors(condition: GpuCondition) -> str | None:
    """Uncorrected memory errors of a GPU without recovery action and without row remapping.

    GPUs with row remapping (Ampere and newer) also contain errors, so that the count alone says nothing.
    """
    facts = condition.facts
    if facts is None or facts.recovery is not None or facts.remap_failed is not None:
        return None
    if not facts.uncorrected_ecc:
        return None
    return f"{facts.uncorrected_ecc} uncorrected memory errors; the GPU must be reset"


def needs_reset_by_xid(condition: GpuCondition) -> str | None:
    """An XID error of the table, while no recovery action says more."""
    fault = condition.fault
    if fault is None or fault.xid not in RESET_XIDS or condition.recovery is not None:
        return None
    return f"{_xid(fault)}; the GPU must be reset"


def _xid(fault: Fault) -> str:
    known = None if fault.xid is None else RESET_XIDS.get(fault.xid)
    meaning = f" ({known})" if known else ""
    return f"XID {fault.xid}{meaning}" + ("" if fault.uuid else " on a GPU that the driver does not name")


class HealthRule(NamedTuple):
    """One rule. ``closes`` and ``opens`` say when, for the documentation."""

    reason: Callable[[GpuCondition], str | None]
    closes: str
    opens: str

    @property
    def name(self) -> str:
        """Its name in metrics: that of its function."""
        return self.reason.__name__


class HealthVerdict(NamedTuple):
    """Why a GPU takes no pods: the name of the rule, and the reason in words."""

    rule: str
    reason: str


RULES: Final = (
    HealthRule(
        needs_recovery,
        "the driver asks for a recovery action: a reset, a reboot, the end of programs (from driver 565 on)",
        "at the first poll at which it asks for none, as after the reset",
    ),
    HealthRule(
        needs_reset_by_xid,
        "the driver reported an XID error of the [table](#xid-errors), and the GPU has no recovery action or "
        "does not answer",
        "after a reload of the driver or a reboot; after a reset alone by the "
        "[runbook](../how-to/runbooks.md#gpusharecardunhealthy)",
    ),
    HealthRule(
        cannot_remap,
        "a defective memory row could not be remapped: the spare rows are used up",
        "when the GPU has been replaced",
    ),
    HealthRule(
        has_uncorrected_errors,
        "there are uncorrected memory errors since the last reset, and the GPU has neither a recovery action "
        "nor row remapping (Turing and older, drivers before 565)",
        "at the first poll after the reset, which clears the count",
    ),
    HealthRule(
        does_not_answer,
        "handle, memory, temperature or a value of this table could not be read in three polls in a row, or "
        "in the first",
        "after `--recovery-seconds` in which every poll succeeded",
    ),
)
"""In the order in which the first that applies gives the reason."""


def verdict_on(condition: GpuCondition) -> HealthVerdict | None:
    """Why the GPU takes no pods; None if it does."""
    reasons = ((rule, rule.reason(condition)) for rule in RULES)
    return next((HealthVerdict(rule.name, reason) for rule, reason in reasons if reason), None)
