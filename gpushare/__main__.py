"""The program ``gpushare``: every daemon and tool is a sub-command, imported when it runs."""

from typing import Final

from gpushare.cli.main import TOOLS
from gpushare.runtime.lazy import Lazy, LazyGroup
from gpushare.runtime.program import run

COMMANDS: Final = {
    "extender": Lazy("gpushare.extender.main:command", "Run the scheduler extender.", "extender"),
    "scheduler-name": Lazy(
        "gpushare.extender.webhook:command", "Name the scheduler of pods that request GPU memory.", "extender"
    ),
    "device-plugin": Lazy(
        "gpushare.deviceplugin.main:command", "Run the node agent (device plugin).", "device-plugin"
    ),
    "exporter": Lazy("gpushare.exporter.main:command", "Serve metrics of the GPUs of a node.", "exporter"),
    "metrics-api": Lazy(
        "gpushare.metricsapi.main:command", "Serve GPU metrics to autoscalers.", "metrics-api"
    ),
    "board-server": Lazy("gpushare.board.main:command", "Serve the board in a cluster."),
    "isolation": Lazy(
        "gpushare.installer.main:command", "Install or remove the isolation library on a node.", "isolation"
    ),
    "mps": Lazy("gpushare.mpsd.main:command", "Run the MPS control daemons of a node.", "device-plugin"),
    "node-mode": Lazy(
        "gpushare.cli.node_mode:command", "Stop or restore NVIDIA's device plugin on a node.", "device-plugin"
    ),
    **TOOLS,
}

command = LazyGroup(
    "gpushare", lazy=COMMANDS, text="GPU sharing for Kubernetes: several pods share one NVIDIA GPU."
)


def main() -> None:
    """Entry point of ``gpushare`` and ``python -m gpushare``."""
    run(command)


if __name__ == "__main__":
    main()
