import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from gpushare.contract import ANN_CARDS, ANN_CLOSED, ANN_OPENED
from gpushare.deviceplugin.api.status import StatusPublisher
from gpushare.model.local_node import LocalNode
from gpushare.runtime.times import seconds_of
from tests.support.builders.gpu_pods import NODE
from tests.support.waiting import until
from tests.unit.deviceplugin.fixtures import AgentFixture


@pytest_asyncio.fixture
async def here(tmp_path: Path) -> AsyncIterator[AgentFixture]:
    """An agent whose node changes again 0.1 s after a GPU has begun to take pods."""
    made = AgentFixture(tmp_path, 14, 14)
    made.status = StatusPublisher(
        made.node_state,
        made.writer,
        made.metrics,
        record_event=made.events.append,
        opened_s=0.1,
    )
    made.writer.observe_node(LocalNode(NODE))
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(each.run()) for each in (made.status, made.writer)]
        yield made
        for each in running:
            each.cancel()


def annotation_changes(here: AgentFixture, name: str) -> list[str | None]:
    found = (patch.get("metadata", {}).get("annotations", {}) for patch in here.api.patches)
    return [annotations[name] for annotations in found if name in annotations]


async def test_a_node_that_opens_changes_twice_for_pods_that_wait(here: AgentFixture) -> None:
    """kube-scheduler may ask the extender before it sees the first change."""
    here.node_state.apply_obstacle("record", "no record")
    await until(lambda: annotation_changes(here, ANN_CLOSED) == ["no record"])
    here.node_state.apply_obstacle("record", None)
    await until(lambda: annotation_changes(here, ANN_CLOSED) == ["no record", None])
    assert not annotation_changes(here, ANN_OPENED)
    await until(lambda: len(annotation_changes(here, ANN_OPENED)) == 1)
    (opened,) = annotation_changes(here, ANN_OPENED)
    assert seconds_of(opened or "")


async def test_a_gpu_that_opens_counts_too(here: AgentFixture) -> None:
    await until(lambda: len(annotation_changes(here, ANN_OPENED)) == 1)
    closed = len(annotation_changes(here, ANN_CARDS)) + 1
    here.node_state.apply_without_mps(frozenset({"GPU-1"}))
    await until(lambda: len(annotation_changes(here, ANN_CARDS)) == closed)
    here.node_state.apply_without_mps(frozenset())
    await until(lambda: len(annotation_changes(here, ANN_OPENED)) == 2)
