"""The component provider: ``GpuShare`` for Pulumi programs in other languages (``PulumiPlugin.yaml``).

Pulumi runs this folder as a program, so its parent is not on ``sys.path``.
"""

import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pulumi.provider.experimental import component_provider_host

from components.resources import GpuShare

if __name__ == "__main__":
    component_provider_host([GpuShare], "gpushare", version=version("gpushare-kubernetes"))
