"""Each rule by which a GPU takes no pods, and the conditions under which none applies."""

from collections.abc import Mapping

import pytest

from gpushare.deviceplugin.core.health_rules import (
    RULES,
    GpuCondition,
    HealthRule,
    cannot_remap,
    does_not_answer,
    has_uncorrected_errors,
    needs_recovery,
    needs_reset_by_xid,
    verdict_on,
)
from gpushare.deviceplugin.core.xids import RESET_XIDS
from gpushare.model.hardware import Fault, GpuFacts, RecoveryAction

MODERN = GpuFacts(recovery=RecoveryAction.NONE, uncorrected_ecc=0, remap_failed=False)
"""A healthy A100 or newer on a driver from 565 on."""
TURING = GpuFacts(recovery=RecoveryAction.NONE, uncorrected_ecc=0)
"""A healthy T4 on such a driver: it remaps no rows."""
OLD_DRIVER = GpuFacts(uncorrected_ecc=0, remap_failed=False)
OLD_TURING = GpuFacts(uncorrected_ecc=0)
WITHOUT_ECC = GpuFacts()
HEALTHY = {
    "modern": GpuCondition(MODERN),
    "turing": GpuCondition(TURING),
    "old driver": GpuCondition(OLD_DRIVER),
    "old turing": GpuCondition(OLD_TURING),
    "without ECC": GpuCondition(WITHOUT_ECC),
    "not read": GpuCondition(),
}
UNCONTAINED, CONTAINED = Fault("GPU-0", 95), Fault("GPU-0", 94)


@pytest.mark.parametrize("condition", HEALTHY.values(), ids=HEALTHY)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_no_rule_applies_to_a_healthy_gpu(condition: GpuCondition, rule: HealthRule) -> None:
    assert rule.reason(condition) is None
    assert verdict_on(condition) is None


def reason_of(condition: GpuCondition) -> str | None:
    verdict = verdict_on(condition)
    return verdict and verdict.reason


def facts(*, recovery: int = 0, uncorrected_ecc: int = 0, remap_failed: bool = False) -> GpuFacts:
    """The answers of an A100 or newer on a driver from 565 on."""
    return GpuFacts(recovery=recovery, uncorrected_ecc=uncorrected_ecc, remap_failed=remap_failed)


RECOVERY: Mapping[int, str] = {
    1: "the driver asks for a reset of the GPU (recovery action 1)",
    2: "the driver asks for a reboot of the node (recovery action 2)",
    3: "the driver asks for the end of all programs that use peer-to-peer access (recovery action 3)",
    4: "the driver asks for the end of all programs on the GPU, then a reset of it (recovery action 4)",
    5: "the driver asks for a recovery of its IMEX domain (recovery action 5)",
    6: "the driver asks for a reset of its PCIe bus (recovery action 6)",
    7: "the driver asks for a reboot of the system (recovery action 7)",
    8: "the driver asks for an action that this version does not know (recovery action 8)",
}


@pytest.mark.parametrize(("action", "reason"), RECOVERY.items())
def test_every_recovery_action_but_none_closes_the_gpu(action: int, reason: str) -> None:
    assert needs_recovery(GpuCondition(facts(recovery=action))) == reason


def test_a_gpu_that_does_not_answer_keeps_its_recovery_action() -> None:
    condition = GpuCondition(facts(recovery=1), failures=1)
    assert needs_recovery(condition) == "the driver asks for a reset of the GPU (recovery action 1)"


@pytest.mark.parametrize("xid", RESET_XIDS)
@pytest.mark.parametrize("known", [OLD_DRIVER, OLD_TURING, WITHOUT_ECC, None])
def test_without_a_recovery_action_an_xid_of_the_table_closes_the_gpu(
    xid: int, known: GpuFacts | None
) -> None:
    reason = needs_reset_by_xid(GpuCondition(known, fault=Fault("GPU-0", xid)))
    assert reason == f"XID {xid} ({RESET_XIDS[xid]}); the GPU must be reset"


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 63, 68, 92, 94, 154, 999])
def test_any_other_xid_closes_no_gpu(xid: int) -> None:
    assert needs_reset_by_xid(GpuCondition(OLD_DRIVER, fault=Fault("GPU-0", xid))) is None


@pytest.mark.parametrize("xid", RESET_XIDS)
def test_a_recovery_action_overrules_the_table_of_xids(xid: int) -> None:
    assert reason_of(GpuCondition(MODERN, fault=Fault("GPU-0", xid))) is None


def test_an_xid_closes_a_gpu_that_does_not_answer_at_once() -> None:
    lost = GpuCondition(MODERN, failures=1, fault=Fault("GPU-0", 79))
    assert reason_of(lost) == "XID 79 (the GPU has fallen off the bus); the GPU must be reset"


def test_a_row_that_could_not_be_remapped_closes_the_gpu_on_any_driver() -> None:
    reason = "a memory row could not be remapped: the GPU must be replaced"
    assert cannot_remap(GpuCondition(facts(remap_failed=True))) == reason
    assert cannot_remap(GpuCondition(GpuFacts(remap_failed=True))) == reason


def test_uncorrected_errors_close_a_gpu_that_neither_remaps_rows_nor_has_a_recovery_action() -> None:
    condition = GpuCondition(GpuFacts(uncorrected_ecc=2))
    assert has_uncorrected_errors(condition) == "2 uncorrected memory errors; the GPU must be reset"


@pytest.mark.parametrize("known", [facts(uncorrected_ecc=2), GpuFacts(uncorrected_ecc=2, remap_failed=False)])
def test_uncorrected_errors_alone_close_no_gpu_that_contains_them(known: GpuFacts) -> None:
    assert reason_of(GpuCondition(known)) is None


def test_a_lasting_failure_closes_the_gpu() -> None:
    assert does_not_answer(GpuCondition(MODERN, failures=1)) is None
    assert does_not_answer(GpuCondition(MODERN, unanswered="GPU is lost")) == "GPU is lost"


def test_the_first_rule_that_applies_gives_the_reason() -> None:
    silent = GpuCondition(
        facts(recovery=1, remap_failed=True), failures=3, unanswered="lost", fault=UNCONTAINED
    )
    found = [rule.name for rule in RULES if rule.reason(silent)]
    assert found == ["needs_recovery", "needs_reset_by_xid", "cannot_remap", "does_not_answer"]
    verdict = verdict_on(silent)
    assert verdict
    assert verdict.rule == "needs_recovery"
