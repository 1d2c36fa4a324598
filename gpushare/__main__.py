"""The program ``gpushare``: every daemon and tool as a sub-command, imported when it is called."""

from typing import Final

from gpushare.cli.lazy import Lazy, LazyGroup, run
from gpushare.cli.main import TOOLS

COMMANDS: Final = {
    "extender": Lazy("gpushare.extender.main:command", "Serve the scheduler extender.", "extender"),
    "device-plugin": Lazy(
        "gpushare.deviceplugin.main:command", "Serve the kubelet: the agent of a node.", "device-plugin"
    ),
    "exporter": Lazy("gpushare.exporter.main:command", "Show what the cards of a node do.", "exporter"),
    "metrics-api": Lazy(
        "gpushare.metricsapi.main:command", "Serve what the cards do to autoscalers.", "metrics-api"
    ),
    "isolation": Lazy(
        "gpushare.installer.main:command", "Put the isolation library on a node and off it.", "isolation"
    ),
    "mps": Lazy("gpushare.mpsd.main:command", "Keep a node's MPS control daemons up.", "device-plugin"),
    "node-mode": Lazy(
        "gpushare.cli.node_mode:command", "Take NVIDIA's plugin off a node and back.", "device-plugin"
    ),
    **TOOLS,
}

command = LazyGroup("gpushare", lazy=COMMANDS, text="Many pods share one NVIDIA card on Kubernetes.")


def main() -> None:
    """Entry point of ``gpushare`` and ``python -m gpushare``."""
    run(command)


if __name__ == "__main__":
    main()
