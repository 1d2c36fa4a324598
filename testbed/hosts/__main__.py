"""Starts and stops hosts, for a shell and for molecule: ``python -m testbed.hosts [--name NAME] up|down``.

``up`` prints the path of the inventory; with ``--suite trixie`` the hosts are Debian 13.
"""

import argparse
import asyncio
import sys
from dataclasses import replace

from devkit.folders import bed_folder, cache_root, writable_cache
from gpushare.errors import GpuShareError
from testbed.control_plane.home import take_down
from testbed.hosts.lab import Lab, hang_up
from testbed.hosts.spec import HOSTS


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m testbed.hosts",
        description="Start or stop hosts; `up` prints the path of the inventory.",
    )
    parser.add_argument("--name", default="hosts", help="name of the set of hosts")
    parser.add_argument("--suite", default="", help="release of Debian, without it that of this machine")
    parser.add_argument("verb", choices=("up", "down"), help="start new hosts, or stop them")
    arguments = parser.parse_args()
    try:
        asyncio.run(up(arguments.name, arguments.suite) if arguments.verb == "up" else down(arguments.name))
    except GpuShareError as error:
        sys.exit(f"hosts: {error}")


async def up(name: str, suite: str = "") -> None:
    """Stop the hosts of that name, start new ones, and leave them up."""
    writable_cache()
    await down(name)
    hosts = tuple(replace(host, base=replace(host.base, suite=suite)) for host in HOSTS)
    lab = Lab(hosts, name=name, bound=False)
    await lab.open()
    lab.leave_up()
    print(lab.inventory)  # noqa: T201 - the output of the command


async def down(name: str) -> None:
    """Stop the hosts of that name, if there are any."""
    folder = bed_folder(name, cache_root())
    if folder.is_dir():
        await hang_up(folder)
        await asyncio.to_thread(take_down, folder)


if __name__ == "__main__":
    main()
