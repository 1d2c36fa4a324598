"""The program ``gpushare``: every daemon and tool as a sub-command, imported when it is called."""

from typing import Final

from gpushare.cli.lazy import Lazy, LazyGroup, run

COMMANDS: Final = {
    "extender": Lazy("gpushare.extender.main:command", "Serve the scheduler extender.", "extender"),
    "inspect": Lazy("gpushare.cli.inspect:command", "Show the GPU memory of nodes and who holds it."),
    "top": Lazy("gpushare.cli.top:command", "Show cards by node, as arena top does."),
    "scheduler-config": Lazy(
        "gpushare.cli.scheduler_config:command", "Print the configuration of kube-scheduler."
    ),
    "version": Lazy("gpushare.cli.version:command", "Print the version."),
}

command = LazyGroup("gpushare", lazy=COMMANDS, text="Many pods share one NVIDIA card on Kubernetes.")


def main() -> None:
    """Entry point of ``gpushare`` and ``python -m gpushare``."""
    run(command)


if __name__ == "__main__":
    main()
