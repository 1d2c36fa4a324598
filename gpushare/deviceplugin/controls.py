"""Which MPS control daemons of the node are up."""

from typing import Final

from gpushare.mps.layout import Folders, mark_of
from gpushare.mps.mark import is_held

MPS: Final = "mps"
"""What the metric of reduced modes calls it."""


class Controls:
    """``visible`` is whether the agent has the folder where they are: without its mount MPS serves nobody."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self.visible = folders.state.is_dir()

    def up(self, uuid: str) -> bool:
        """Whether that card's daemon answers, as far as its keeper has seen."""
        return is_held(mark_of(self.folders.state, uuid))
