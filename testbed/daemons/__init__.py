"""Our services, Prometheus and prometheus-adapter as processes of a testbed."""

import sys
from pathlib import Path


def console_script(name: str) -> str:
    """Return the path of a console script of gpushare in the environment of this Python."""
    return str(Path(sys.executable).with_name(name))
