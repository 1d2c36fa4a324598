"""Hosts from a shell and for molecule: ``python -m testbed.hosts [--name NAME] up|down``.

``up`` prints the path of the inventory.
"""

import argparse
import asyncio
import sys

from gpushare.errors import GpuShareError
from testbed.control_plane.home import take_down
from testbed.hosts.lab import Lab, hang_up
from testbed.system.folders import bed_folder, cache_root


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m testbed.hosts", description=__doc__)
    parser.add_argument("--name", default="hosts", help="which hosts, where there are several sets")
    parser.add_argument("verb", choices=("up", "down"), help="start fresh hosts, or end them")
    arguments = parser.parse_args()
    try:
        asyncio.run((up if arguments.verb == "up" else down)(arguments.name))
    except GpuShareError as error:
        sys.exit(f"hosts: {error}")


async def up(name: str) -> None:
    """Start fresh hosts in place of those of that name, and leave them up."""
    await down(name)
    lab = Lab(name=name, bound=False)
    await lab.open()
    lab.leave_up()
    print(lab.inventory)  # noqa: T201 - what a shell reads


async def down(name: str) -> None:
    """End the hosts of that name, if there are any."""
    folder = bed_folder(name, cache_root())
    if folder.is_dir():
        await hang_up(folder)
        await asyncio.to_thread(take_down, folder)


if __name__ == "__main__":
    main()
