"""XID errors after which a GPU must be reset, by NVIDIA's catalogue. Pure.

Only drivers without a recovery action (before 565) are judged by this table. Source: "Analyzing Xid Errors
with the Xid Catalog", https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, as stored in
November 2026. It gives each XID an immediate action. The table has those whose action changes the GPU or the
machine: RESET_GPU, WORKFLOW_XID_48 (a reset, alone or with 63 and 64), WORKFLOW_NVLINK_ERR ("a GPU reset or
node reboot is needed"), RESTART_BM, RESTART_VM and CHECK_MECHANICALS (with the power off).

All others leave the GPU in use. For RESTART_APP and IGNORE, which most have, the catalogue says so: 94 is an
error that is contained in one program, 63 a row that was replaced, 154 a change of the recovery action in
either direction. 144 to 150 (WORKFLOW_NVLINK5_ERR) depend on bits that NVML does not report; they are of
GPUs whose drivers have a recovery action.
"""

from collections.abc import Mapping
from typing import Final

from gpushare.errors import ConfigError
from gpushare.model.quantity import parse_small

RECOVERY_ACTION_CHANGED: Final = 154
"""Says that the driver has another opinion about the GPU than before, not which."""
RESET_XIDS: Final[Mapping[int, str]] = {
    46: "the GPU stopped processing",
    48: "double bit ECC error",
    54: "auxiliary power is not connected",
    62: "internal micro-controller halt",
    64: "memory remapping failure",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    95: "uncontained memory error",
    109: "context switch timeout",
    110: "security fault",
    119: "GSP RPC timeout",
    120: "GSP error",
    136: "link training failed",
    140: "unrecovered ECC error",
    143: "GPU initialization error",
    151: "key rotation error",
    155: "NVLink error defined by software",
    156: "resource retirement",
    158: "fatal timeout",
}
"""XID to its description."""


def parse_xids(text: str) -> frozenset[int]:
    """The XIDs in a comma-separated list such as ``31,43,45``; empty for an empty text.

    Raises ConfigError for an entry that is not a number.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    numbers = {entry: parse_small(entry) for entry in entries}
    invalid = [entry for entry, number in numbers.items() if number is None]
    if invalid:
        raise ConfigError(f"ignored XIDs {text!r}: {invalid[0]!r} is not a number; write them as 31,43,45")
    return frozenset(number for number in numbers.values() if number is not None)
