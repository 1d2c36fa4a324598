"""``recommend --apply``: shows the changes of workloads, asks, and patches them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
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
_ATTEMPTS: Final = 5


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
            for resize in change.resizes:
                show(f"{change.container(resize.container)} requests {resize.after}\n")
    return len(wanted) == sum(isinstance(each, Change) for each in made)


def shown(patch: Patch) -> str:
    """The change as a diff."""
    return "".join(
        f"{patch.change.container(each.container)}:\n"
        f"-  {RESOURCE_MEM}: {each.before}\n+  {RESOURCE_MEM}: {each.after}\n"
        for each in patch.change.resizes
    )


async def _each(
    client: KubeClient, items: Sequence[A], act: Callable[[KubeClient, A], Awaitable[B]]
) -> list[B]:
    return [await act(client, each) for each in items]


async def _tried(client: KubeClient, wanted: Change | Refused) -> Patch | Refused:
    """The patch of a change, which the API server has tried without making it."""
    if isinstance(wanted, Refused):
        return wanted
    return await _sent(client, wanted, _TRIAL)


async def _made(client: KubeClient, shown: Patch) -> Change | Refused:
    sent = await _sent(client, shown.change, _QUERY, shown)
    return sent if isinstance(sent, Refused) else sent.change


async def _sent(
    client: KubeClient, change: Change, query: Mapping[str, str], shown: Patch | None = None
) -> Patch | Refused:
    """The patch of the change, sent to the API server; refused if it is no longer what was shown.

    Each status of a pod changes the version of the workload, so the patch is made again of the new version.
    """
    for _ in range(_ATTEMPTS):
        try:
            workload = await client.request("GET", change.path, timeout_s=TIMEOUT_S)
            patch = patch_of(change, msgspec.json.decode(workload))
            if isinstance(patch, Refused):
                return patch
            if shown and patch.spec != shown.spec:
                return Refused(str(change), "its containers have changed meanwhile: run the command again")
            await client.request("PATCH", change.path, timeout_s=TIMEOUT_S, query=query, body=patch.body)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                return Refused(str(change), str(error))
        else:
            return patch
    return Refused(str(change), f"it has changed during each of {_ATTEMPTS} attempts: run the command again")
