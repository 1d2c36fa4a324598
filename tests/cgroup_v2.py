"""``make test-cgroup-v2``: tests with kubelets on a machine with cgroup v2 only, whatever this one has.

The machine has its own kernel (``testbed.uml``) and the files of this machine. Its system calls are slow, so
the tests take 5 minutes, the demo 10, and neither is part of CI.
"""

import asyncio
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from devkit.folders import cache_root
from testbed import DevkitError, Testbed
from testbed.kubelets import KubeletSpec
from testbed.uml import UmlNode, add_uml_node, wiring

_ROOT: Final = Path(__file__).parents[1]
_TESTS: Final = (
    "tests/integration/test_kubelets.py",
    "-k=ready_with_the_labels or reads_the_log",
)
_OUTPUT: Final = "/dev/shm/output"  # noqa: S108 - on the machine, where only we are
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SLOWER: Final = 10
_LIMIT_S: Final = 1800.0
_POLL_S: Final = 5.0


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--demo", is_flag=True, help="Run the demo instead.")
@click.argument("tests", nargs=-1, type=click.UNPROCESSED)
def main(tests: tuple[str, ...], *, demo: bool) -> None:
    """Run pytest with these arguments; by default a node, a pod, its log and commands in it."""
    pytest = ["pytest", "-n0", "-p", "no:cacheprovider", *(tests or _TESTS)]
    try:
        failed = asyncio.run(_run(["testbed.demo"] if demo else pytest))
    except DevkitError as error:
        raise click.ClickException(str(error)) from None
    sys.exit(failed)


async def _run(module: Sequence[str]) -> int:
    """Run a module of Python with arguments, and return its exit code."""
    async with Testbed(kwok=False) as bed:
        node = await add_uml_node(bed, KubeletSpec("v2"))
        await node.run_text(["systemctl", "stop", "kubelet", "containerd"])
        running = asyncio.create_task(node.run_text(_enter(_script(module)), _LIMIT_S))
        await _show(node, running)
        return int(await running)


def _script(module: Sequence[str]) -> str:
    """Return the script that runs a module where the root folder has the files of this machine."""
    return f"""\
umount -l /old
export HOME=/root PATH={_PATH} GPUSHARE_TIMEOUT_FACTOR={_SLOWER} GPUSHARE_REQUIRE_ALL=1 DEMO_ONCE=1
cd {shlex.quote(str(_ROOT))}
code=0
{shlex.join([sys.executable, "-m", *module])} >{_OUTPUT} 2>&1 || code=$?
echo $code
"""


def _enter(script: str) -> list[str]:
    """Return the command that runs a script in the files of this machine, with a cache that it may write.

    They become the root of a mount namespace: nodes below have mount namespaces too, which a chroot is not.
    """
    cache = shlex.quote(str(cache_root()))
    enter = f"""\
mkdir -p /writes/cache /writes/work-cache {wiring.TREE}/old
options=lowerdir={cache},upperdir=/writes/cache,workdir=/writes/work-cache
mount -t overlay -o $options overlay {wiring.TREE}{cache}
cd {wiring.TREE}
pivot_root . old
exec chroot . /bin/sh -ec {shlex.quote(script)}
"""
    return ["unshare", "--mount", "--propagation", "private", "--", "/bin/sh", "-ec", enter]


async def _show(node: UmlNode, running: "asyncio.Task[str]") -> None:
    """Print the output of the tests as it comes."""
    shown = 0
    while True:
        over = running.done()
        with suppress(DevkitError):
            text = await node.run_text(["cat", _OUTPUT])
            click.echo(text[shown:], nl=False)
            shown = len(text)
        if over:
            return
        await asyncio.wait([running], timeout=_POLL_S)


if __name__ == "__main__":
    main()
