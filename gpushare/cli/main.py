"""Entry points of the kubectl plugins.

``kubectl-gpushare`` is ``kubectl gpushare …``; ``kubectl-inspect-gpushare`` and
``kubectl-inspect-cgpu`` are the original's ``kubectl inspect gpushare [-d] [nodeName]``.
"""

from typing import Final

from gpushare.cli.lazy import Lazy, LazyGroup, run

TOOLS: Final = {
    "inspect": Lazy("gpushare.cli.inspect:command", "Show the GPU memory of nodes and who holds it."),
    "top": Lazy("gpushare.cli.top:command", "Show cards by node, as arena top does."),
    "limits": Lazy("gpushare.cli.limits:command", "Show what isolation holds containers to, and their use."),
    "scheduler-config": Lazy(
        "gpushare.cli.scheduler_config:command", "Print the configuration of kube-scheduler."
    ),
    "scheduler-manifest": Lazy(
        "gpushare.cli.scheduler_manifest:command", "Edit the static pod of kube-scheduler on its node."
    ),
    "version": Lazy("gpushare.cli.version:command", "Print the version."),
}

plugin = LazyGroup("kubectl-gpushare", lazy=TOOLS, text="Look at shared GPUs and set up their scheduler.")


def kubectl_main() -> None:
    """``kubectl gpushare``."""
    run(plugin)


def inspect_main() -> None:
    """``kubectl inspect gpushare`` and ``kubectl inspect cgpu``."""
    from gpushare.cli.inspect import command  # noqa: PLC0415 - not needed by the other entry point

    run(command)
