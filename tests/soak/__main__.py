"""``make test-soak``: runs a soak and prints its summary; ``--plan`` prints the schedule alone."""

import asyncio
import random
import signal
import time

import click

from testbed import DevkitError
from tests.soak.run import Say, SoakFailed, soak
from tests.soak.schedule import schedule
from tests.soak.summary import Summary
from tests.support.machine import machine
from tests.support.needs import missing


@click.command()
@click.option("--seed", type=int, help="Repeats a run; by default a new one, which is printed.")
@click.option("--minutes", default=30.0, show_default=True, help="Duration of load and faults.")
@click.option("--plan", is_flag=True, help="Print the schedule and run nothing.")
def main(seed: int | None, minutes: float, *, plan: bool) -> None:
    """Load and random faults on the whole stack; 0 over-commits and 0 lost pods, or an error."""
    seed = random.randrange(10**6) if seed is None else seed
    try:
        actions = schedule(seed, minutes)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if plan:
        click.echo("\n".join(map(str, actions)))
        return
    for need in ("kubelet", "second-kernel", "compiler"):
        if reason := missing(need):
            raise click.ClickException(reason)
    began = time.monotonic()

    def say(text: str) -> None:
        click.echo(f"[{time.monotonic() - began:6.1f} s] {text}")

    click.echo(machine())
    try:
        summary = asyncio.run(_until_interrupted(seed, minutes, say))
    except (SoakFailed, DevkitError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(summary.markdown())


async def _until_interrupted(seed: int, minutes: float, say: Say) -> Summary:
    """Run a soak; the first SIGINT ends it at its next check, the second one at once."""
    ending, loop = asyncio.Event(), asyncio.get_running_loop()

    def end() -> None:
        say("interrupted: it ends at the next check")
        ending.set()
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, end)
    return await soak(seed, minutes, say, name="soak", ending=ending)


if __name__ == "__main__":
    main()
