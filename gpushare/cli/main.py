"""Entry points of the kubectl plugins, and the table of their commands.

``kubectl-gpushare`` is ``kubectl gpushare …``; ``kubectl-inspect-gpushare`` and ``kubectl-inspect-cgpu`` are
``kubectl inspect gpushare [-d] [nodeName]`` of the Aliyun gpushare pair.
"""

from typing import Final

import click

from gpushare.runtime.lazy import Lazy, LazyGroup
from gpushare.runtime.program import CONTEXT, VERSION, run

TOOLS: Final = {
    "inspect": Lazy("gpushare.cli.inspect.command:inspect", "Show allocated and total GPU memory of nodes."),
    "top": Lazy("gpushare.cli.top.command:top", "Show GPUs by node, or their usage by pod."),
    "board": Lazy("gpushare.cli.board.command:board", "Show GPUs, pods and idle memory in the browser."),
    "limits": Lazy(
        "gpushare.cli.limits.command:limits", "Show the memory limits of containers and their usage."
    ),
    "doctor": Lazy("gpushare.cli.doctor.command:doctor", "Check the installation, from scheduler to GPUs."),
    "fit": Lazy("gpushare.cli.fit.command:fit", "Show how many pods of a size would fit now, and where."),
    "explain": Lazy("gpushare.cli.explain.command:explain", "Explain why a pod is pending, and what helps."),
    "defrag": Lazy("gpushare.cli.defrag.command:defrag", "Move pods so that pods that wait fit on a GPU."),
    "simulate": Lazy(
        "gpushare.cli.simulate.command:simulate", "Replay a workload under each placement policy."
    ),
    "recommend": Lazy(
        "gpushare.cli.recommend.command:recommend", "Suggest GPU memory requests from peaks and refusals."
    ),
    "runbook": Lazy(
        "gpushare.cli.runbook.command:runbook", "Print what an alert means, and what to do about it."
    ),
    "report": Lazy("gpushare.cli.report.command:report", "Report GPU-hours and GiB-hours of workloads."),
    "migrate": Lazy(
        "gpushare.cli.migrate.command:migrate", "Report what HAMi or the Aliyun pair uses, and convert it."
    ),
    "node-group": Lazy(
        "gpushare.cli.node_group.command:command", "Print what Cluster Autoscaler must know of a node group."
    ),
    "scheduler-config": Lazy(
        "gpushare.cli.scheduler_config:command", "Print the configuration of kube-scheduler."
    ),
    "scheduler-manifest": Lazy(
        "gpushare.cli.scheduler_manifest:command", "Edit the static pod of kube-scheduler on its node."
    ),
    "certificates": Lazy(
        "gpushare.cli.certificates.command:command", "Make certificates of the scheduler and our servers."
    ),
    "version": Lazy("gpushare.cli.main:version", "Print the version."),
}

plugin = LazyGroup("kubectl-gpushare", lazy=TOOLS, text="Show shared GPUs and set up their scheduler.")


@click.command("version", context_settings=CONTEXT)
def version() -> None:
    """Print the version."""
    click.echo(VERSION)


def kubectl_main() -> None:
    """``kubectl gpushare``."""
    run(plugin)


def inspect_main() -> None:
    """``kubectl inspect gpushare`` and ``kubectl inspect cgpu``; errors as in the Aliyun tool."""
    from gpushare.cli.inspect.command import inspect

    run(inspect, failure="Failed due to ")
