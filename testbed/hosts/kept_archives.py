"""What ``ansible-playbook`` gets to keep the archives of its modules between runs.

What does not belong here: the plugin that keeps them (``callbacks``).
"""

from pathlib import Path
from typing import Final

from devkit.folders import cache_root

_PLUGINS: Final = Path(__file__).with_name("callbacks")


def environment() -> dict[str, str]:
    """Return the variables for the environment of a run."""
    return {
        "ANSIBLE_CALLBACK_PLUGINS": str(_PLUGINS),
        "GPUSHARE_KEPT_ARCHIVES": str(cache_root() / "ansible"),
    }
