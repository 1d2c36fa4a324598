"""Commands of a page have the time that they take; reads are repeated."""

import asyncio
from collections.abc import Iterator
from typing import cast

import pytest

from testbed import Bed, DevkitError
from tests.support.fixtures import pages
from tests.support.pages import Command
from tests.support.virtual_time import skip_waits

BED = cast("Bed", None)


class Cluster:
    """A FAKE: the outputs of its commands, one after the other, each after ``takes_s`` seconds."""

    def __init__(self, takes_s: float, *outputs: str | DevkitError) -> None:
        self.takes_s = takes_s
        self.outputs: Iterator[str | DevkitError] = iter(outputs)

    async def show(self, _bed: Bed, _line: str, timeout_s: float) -> str:
        async with asyncio.timeout(timeout_s):
            await asyncio.sleep(self.takes_s)
        output = next(self.outputs)
        if isinstance(output, DevkitError):
            raise output
        return output


async def follow(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, command: str) -> None:
    skip_waits(asyncio.get_running_loop())
    monkeypatch.setattr(pages, "show", cluster.show)
    monkeypatch.setattr(pages, "steps", lambda _: [Command("", command, ("as shown",))])
    await pages.follow(BED, "README.md")


async def test_a_command_that_waits_for_long_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    await follow(monkeypatch, Cluster(200, "as shown"), "kubectl wait --for=condition=Available d/x")


async def test_a_command_without_the_output_of_the_page_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(AssertionError, match="something else"):
        await follow(monkeypatch, Cluster(1, "something else", "as shown"), "kubectl apply -f x.yaml")


async def test_a_read_is_repeated_until_it_has_the_output_of_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(1, DevkitError("not found"), "nothing yet", "as shown")
    await follow(monkeypatch, cluster, "kubectl get pods")
