"""The page of the rules by which GPUs take no pods, generated from their table."""

from gpushare.deviceplugin.core.health import UNFIT
from gpushare.deviceplugin.core.health_rules import RULES
from gpushare.deviceplugin.core.xids import RESET_XIDS

_CHANGES = "../concepts/node-agent.md#gpus-and-drivers-that-change"


def page() -> str:
    """The page."""
    lines = [
        "# Health of GPUs",
        "",
        "The node agent asks the driver about each GPU at its start, every five seconds and after each XID",
        "error. If one of these rules applies to a GPU, the GPU takes no pods; its present pods continue.",
        "The name of the rule is a label of `gpushare_device_plugin_card_unhealthy`; the reason is in the",
        "log of the agent (`card_health_changed`), in an event of the node (`GPUShareCardUnhealthy`), in",
        "its annotation `gpushare.io/cards` (`fault`), in `doctor`, and in the event of a waiting pod. What",
        "to do is in the [runbook](../how-to/runbooks.md#gpusharecardunhealthy).",
        "",
        "| rule | closes the GPU if | opens it |",
        "|---|---|---|",
        *(f"| `{rule.name}` | {rule.closes} | {rule.opens} |" for rule in RULES),
        f"| `{UNFIT}` | it [cannot be shared]({_CHANGES}), for example in MIG mode | when it can be shared |",
        "",
        "If several rules apply, the first rule gives the reason. Nothing else closes a GPU: not an XID",
        "error of a GPU with a recovery action, not a corrected memory error, and not a pending row",
        "remapping. By NVIDIA's documentation, new work can start on a GPU with a pending row remapping.",
        "",
        "## XID errors",
        "",
        "The rule `needs_reset_by_xid` uses these XID errors. After them, NVIDIA's catalogue (November 2026)",
        "demands a reset of the GPU or a restart of the machine. `--ignored-xids` excludes errors.",
        "",
        "| XID | error |",
        "|---|---|",
        *(f"| {xid} | {text} |" for xid, text in RESET_XIDS.items()),
    ]
    return "\n".join(lines) + "\n"
