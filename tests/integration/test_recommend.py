"""``recommend --apply`` on a real API server: it tries the patch, shows it, asks, and makes it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import pytest_asyncio

from gpushare.cli.recommend.apply import apply
from gpushare.cli.recommend.changes import Change, Refused, Resize
from gpushare.contract import RESOURCE_MEM
from gpushare.overview.connection import ApiSource
from gpushare.overview.objects import PodOwner
from testbed import Bed
from tests.support.fixtures.gpu_nodes import container, owner, owners

pytestmark = pytest.mark.asyncio(loop_scope="session")

WEB = f"{owners('Deployment')}/web"
CHANGE = Change("default", PodOwner("Deployment", "web"), (Resize("main", 4, 7),))
SUBJECT = "deployment/web in namespace default, container main"


@dataclass
class Terminal:
    """What a user sees and answers."""

    bed: Bed
    answer: bool = True
    meanwhile: Callable[[], None] = lambda: None
    shown: str = ""
    reported: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def apply(self, *wanted: Change | Refused) -> bool:
        """Whether all changes were made."""
        return await asyncio.to_thread(self._apply, wanted)

    def _apply(self, wanted: Sequence[Change | Refused]) -> bool:
        source = ApiSource(str(self.bed.kubeconfig))
        return apply(source, wanted, show=self._show, report=self.reported.append, confirmed=self._confirmed)

    def _show(self, text: str) -> None:
        self.shown += text

    def _confirmed(self, question: str) -> bool:
        self.asked.append(question)
        self.meanwhile()
        return self.answer


@pytest_asyncio.fixture(loop_scope="session")
async def terminal(clean_bed: Bed) -> AsyncIterator[Terminal]:
    """A user of a cluster where Helm has installed a Deployment that requests 4 units."""
    path = f"{owners('Deployment')}?fieldManager=helm"
    await clean_bed.api.create(path, owner("Deployment", "web", 0, container(4)))
    yield Terminal(clean_bed)
    await clean_bed.api.delete(WEB)


async def limits(bed: Bed) -> Any:
    (found,) = (await bed.api.get(WEB))["spec"]["template"]["spec"]["containers"]
    return found["resources"]["limits"]


async def test_a_confirmed_change_is_made_and_shown_as_a_diff(terminal: Terminal) -> None:
    assert await terminal.apply(CHANGE)
    assert await limits(terminal.bed) == {RESOURCE_MEM: "7"}
    diff = f"{SUBJECT}:\n-  {RESOURCE_MEM}: 4\n+  {RESOURCE_MEM}: 7\n"
    assert terminal.shown == f"{diff}{SUBJECT} requests 7\n"
    assert terminal.asked == ["Change 1 of 1? The workloads replace their pods"]
    again = f"helm has set the request of {SUBJECT} and may set it again: change it there too"
    assert terminal.reported == [f"warning: {again}"]


async def test_two_containers_are_changed_by_one_patch(terminal: Terminal) -> None:
    spec = {"containers": [container(4), container(2, "other")]}
    await terminal.bed.api.patch(WEB, {"spec": {"template": {"spec": spec}}})
    before = (await terminal.bed.api.get(WEB))["metadata"]["generation"]
    assert await terminal.apply(replace(CHANGE, resizes=(*CHANGE.resizes, Resize("other", 2, 3))))
    found = await terminal.bed.api.get(WEB)
    assert [
        each["resources"]["limits"][RESOURCE_MEM] for each in found["spec"]["template"]["spec"]["containers"]
    ] == ["7", "3"]
    assert found["metadata"]["generation"] == before + 1


async def test_without_consent_nothing_changes(terminal: Terminal) -> None:
    terminal.answer = False
    assert not await terminal.apply(CHANGE)
    assert await limits(terminal.bed) == {RESOURCE_MEM: "4"}


def patching(terminal: Terminal, patch: Any) -> Callable[[], None]:
    """Another user, who changes the workload."""
    loop = asyncio.get_running_loop()

    def change() -> None:
        asyncio.run_coroutine_threadsafe(terminal.bed.api.patch(WEB, patch), loop).result(30)

    return change


async def test_other_containers_than_those_that_were_shown_are_left_alone(terminal: Terminal) -> None:
    images = {"containers": [{**container(4), "image": "another"}]}
    terminal.meanwhile = patching(terminal, {"spec": {"template": {"spec": images}}})
    assert not await terminal.apply(CHANGE)
    assert await limits(terminal.bed) == {RESOURCE_MEM: "4"}
    assert terminal.reported[-1].endswith("its containers have changed meanwhile: run the command again")


async def test_a_workload_whose_status_or_labels_change_meanwhile_is_changed(terminal: Terminal) -> None:
    terminal.meanwhile = patching(terminal, {"metadata": {"labels": {"by": "another"}}})
    assert await terminal.apply(CHANGE)
    assert await limits(terminal.bed) == {RESOURCE_MEM: "7"}


async def test_what_the_api_server_would_refuse_is_not_offered(terminal: Terminal) -> None:
    missing = replace(CHANGE, owner=PodOwner("Deployment", "gone"))
    assert not await terminal.apply(missing, Refused("pod/x", "it is fixed"))
    assert terminal.asked == []
    gone, fixed = terminal.reported
    assert '"gone" not found' in gone
    assert fixed == "pod/x is not changed: it is fixed"
