"""``make bench PART=preflight``: the preflight of many hosts, compared with a bare ``ansible -m setup``.

The hosts are aliases of two real ones with systemd and SSH, each alias with a separate connection. Both
commands are those that users run, with the checkout's ansible.cfg. In each round each of them runs twice,
first with new connections and then with those that were left open; the commands take turns in going first.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import click

from testbed.hosts import HOSTS, Lab
from testbed.hosts.lab import hang_up
from tests.support.machine import machine

ROOT = Path(__file__).parents[2]
BIN = ROOT / "ansible/.venv/bin"
SETUP = "bare setup"
PREFLIGHT = "preflight"
GOAL = 1.5
# As many may be greeting one sshd at once as there are forks of Ansible, all with one address.
_SSHD = {"/etc/ssh/sshd_config.d/bench.conf": "MaxStartups 200\n"}


@click.command()
@click.option("--hosts", default=200, show_default=True, help="Hosts in the inventory.")
@click.option("--rounds", default=3, show_default=True, help="Rounds of both commands.")
@click.option("--forks", default=20, show_default=True, help="Ansible's forks, for both.")
def main(hosts: int, rounds: int, forks: int) -> None:
    """Print the results as Markdown."""
    asked = f"{hosts} hosts, {forks} forks, medians of {rounds} rounds"
    click.echo(f"{machine()}; {asked}\n")
    ratio = _print_rows(asyncio.run(measure(hosts, rounds, forks)))
    sys.exit(ratio > GOAL)


async def measure(hosts: int, rounds: int, forks: int) -> dict[tuple[str, str], list[float]]:
    """Return the seconds of each run by command and kind of connection."""
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    real = tuple(replace(host, files=_SSHD) for host in HOSTS if host.name != "gpu-2")
    async with Lab(real) as lab:
        commands = {
            SETUP: ["ansible", "all", "-m", "ansible.builtin.setup"],
            PREFLIGHT: ["ansible-playbook", "ansible/playbooks/preflight.yml"],
        }
        for turn in range(rounds):
            order = [SETUP, PREFLIGHT] if turn % 2 == 0 else [PREFLIGHT, SETUP]
            for name in order:
                with tempfile.TemporaryDirectory(prefix="b") as folder:
                    inventory = _inventory(lab, Path(folder), hosts)
                    argv = [*commands[name], f"--inventory={inventory}", f"--forks={forks}"]
                    try:
                        for connections in ("new", "kept"):
                            taken = await _timed(argv)
                            click.echo(f"{name}, connections {connections}: {taken:.1f} s", err=True)
                            seconds[name, connections].append(taken)
                    finally:
                        await hang_up(Path(folder))
    return seconds


def _inventory(lab: Lab, folder: Path, hosts: int) -> Path:
    """One alias of the control plane, all others of the node with a card."""
    plane, *nodes = [f"host-{number:03}" for number in range(hosts)]
    content = {
        "all": {
            "vars": {
                "ansible_user": "root",
                "ansible_python_interpreter": "/usr/bin/python3",
                "ansible_ssh_args": (
                    f"-F {lab.ssh_config} -o ControlMaster=auto -o ControlPersist=600s"
                    f" -o ControlPath={folder}/{{{{ inventory_hostname }}}}.ssh"
                ),
            },
            "children": {
                "kube_control_plane": {"hosts": {plane: {"ansible_host": "cp-1", "preflight_node": "plain"}}},
                "gpu_nodes": {"hosts": {node: {"ansible_host": "gpu-1"} for node in nodes}},
            },
        }
    }
    path = folder / "hosts.json"
    path.write_text(json.dumps(content))
    return path


async def _timed(argv: list[str]) -> float:
    """Seconds of a command. Raises ClickException if it fails."""
    program, *arguments = argv
    pipe = asyncio.subprocess.PIPE
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        BIN / program, *arguments, cwd=ROOT, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise click.ClickException(f"{program} ended with {process.returncode}:\n{output.decode()[-3000:]}")
    return time.perf_counter() - started


def _print_rows(seconds: dict[tuple[str, str], list[float]]) -> float:
    """Print a row for each kind of connection; return the worst ratio."""
    click.echo(f"| connections | {SETUP} | {PREFLIGHT} | ratio | goal |\n|---|---|---|---|---|")
    ratios = []
    for connections in ("new", "kept"):
        bare, ours = (statistics.median(seconds[name, connections]) for name in (SETUP, PREFLIGHT))
        ratios.append(ours / bare)
        click.echo(f"| {connections} | {bare:.1f} s | {ours:.1f} s | {ours / bare:.2f} | {GOAL} |")
    return max(ratios)


if __name__ == "__main__":
    main()
