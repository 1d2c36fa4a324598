"""The programs of Pulumi in one folder, and their environment.

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
    """Link CLI, language host and Kubernetes provider in ``folder``; build missing ones first.

    ``provider`` replaces the provider. Returns the folder.
    """
    found = await build.ensure(TOOLS if provider is None else TOOLS[:2])
    paths = {name: installed.path for name, installed in found.items()}
    return link(folder, {**paths, **({PROVIDER: provider} if provider else {})})


def link(folder: Path, programs: Mapping[str, Path]) -> Path:
    """Create links with these names in ``folder``, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in programs.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(path)
    return folder


def environment(folder: Path, programs: Path) -> dict[str, str]:
    """Return the environment of the engine of a stack; homes and state are below ``folder``.

    The credentials of the cluster are in ``~/.kube/config``: the SDK would pass the path in ``KUBECONFIG`` to
    the provider as a setting, but the official one of the tool table expects the text of the file.
    """
    return {
        "HOME": str(home(folder)),
        # The language host uses the first Python; the environment of this one has the SDK.
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
    """Return the home folder of the engine."""
    return folder / "home"
