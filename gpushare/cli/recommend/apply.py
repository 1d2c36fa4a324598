"""``recommend --apply``: shows the changes of workloads, asks, and patches them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.cli.recommend.changes import MANAGER, Change, Patch, Refused, patch_of
from gpushare.contract import RESOURCE_MEM
from gpushare.errors import ApiError
from gpushare.overview.connection import ApiSource
from gpushare.overview.lists import TIMEOUT_S

A = TypeVar("A")
B = TypeVar("B")

_QUERY: Final = {"fieldManager": MANAGER}
_TRIAL: Final = {**_QUERY, "dryRun": "All"}


def apply(
    source: ApiSource,
    wanted: Sequence[Change | Refused],
    *,
    show: Callable[[str], None],
    report: Callable[[str], None],
    confirmed: Callable[[str], bool],
) -> bool:
    """Patch the workloads after they were shown and confirmed. Whether all wanted changes were made.

    The API server tries each patch before it is shown, so that nobody confirms what it would refuse.
    """
    tried = source.ask(lambda client: _each(client, wanted, _tried))
    patches = [each for each in tried if isinstance(each, Patch)]
    for refused in tried:
        if isinstance(refused, Refused):
            report(str(refused))
    for patch in patches:
        show(shown(patch))
        for warning in patch.warnings:
            report(f"warning: {warning}")
    if not patches:
        return not wanted
    if not confirmed(f"Change {len(patches)} of {len(wanted)}? The workloads replace their pods"):
        return False
    made = source.ask(lambda client: _each(client, patches, _made))
    for change in made:
        if isinstance(change, Refused):
            report(str(change))
        else:
            show(f"{change} requests {change.after}\n")
    return len(wanted) == sum(isinstance(each, Change) for each in made)


def shown(patch: Patch) -> str:
    """The change as a diff."""
    before, after = patch.change.before, patch.change.after
    return f"{patch.change}:\n-  {RESOURCE_MEM}: {before}\n+  {RESOURCE_MEM}: {after}\n"


async def _each(
    client: KubeClient, items: Sequence[A], act: Callable[[KubeClient, A], Awaitable[B]]
) -> list[B]:
    return [await act(client, each) for each in items]


async def _tried(client: KubeClient, wanted: Change | Refused) -> Patch | Refused:
    """The patch of a change, which the API server has tried without making it."""
    if isinstance(wanted, Refused):
        return wanted
    try:
        workload = await client.request("GET", wanted.path, timeout_s=TIMEOUT_S)
        patch = patch_of(wanted, msgspec.json.decode(workload))
        if isinstance(patch, Patch):
            await _send(client, patch, _TRIAL)
    except ApiError as error:
        return Refused(str(wanted), str(error))
    return patch


async def _made(client: KubeClient, patch: Patch) -> Change | Refused:
    try:
        await _send(client, patch, _QUERY)
    except ApiError as error:
        return Refused(str(patch.change), str(error))
    return patch.change


async def _send(client: KubeClient, patch: Patch, query: dict[str, str]) -> None:
    await client.request("PATCH", patch.change.path, timeout_s=TIMEOUT_S, query=query, body=patch.body)
