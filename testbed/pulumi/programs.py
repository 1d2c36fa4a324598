"""The programs of Pulumi in one folder, and the environment in which they find each other.

What belongs here: names, paths and variables. What does not: running them (``testbed.pulumi.stack``).
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from testbed.programs import build

CLI = "pulumi"
HOST = "pulumi-language-python"
PROVIDER = "pulumi-resource-kubernetes"
TOOLS = (CLI, HOST, PROVIDER)


async def install(folder: Path, *, provider: Path | None = None) -> Path:
    """Fill ``folder`` with CLI, language host and Kubernetes provider; what is missing is built first.

    ``provider`` takes the place of the provider. Returns the folder.
    """
    found = await build.ensure(TOOLS if provider is None else TOOLS[:2])
    paths = {name: installed.path for name, installed in found.items()}
    return link(folder, {**paths, **({PROVIDER: provider} if provider else {})})


def link(folder: Path, programs: Mapping[str, Path]) -> Path:
    """Fill ``folder`` with links of these names, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in programs.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(path)
    return folder


def environment(folder: Path, programs: Path) -> dict[str, str]:
    """Return what a stack's engine has in its environment; homes and state are below ``folder``.

    The cluster's credentials are in ``~/.kube/config``. In ``KUBECONFIG`` the SDK would find their path
    and make it a setting of the provider, and the official one of the table wants the text there.
    """
    return {
        "HOME": str(home(folder)),
        # The language host takes the first Python; this one's environment has the SDK.
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
        "PULUMI_CONFIG_PASSPHRASE": "testbed",
        # Without it there is no --event-log.
        "PULUMI_DEBUG_COMMANDS": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_HOME": str(folder / "pulumi"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }


def home(folder: Path) -> Path:
    """The home folder of who runs the engine."""
    return folder / "home"
