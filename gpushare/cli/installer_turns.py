"""The pods of the installer's Job edit one control plane after the other, as the API server lists them.

The decision is in ``kubescheduler.turns``. What does not belong here: the edit.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click
import msgspec
from msgspec import Raw, Struct, field

from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access
from gpushare.adapters.kube.events import write_event
from gpushare.contract import INSTALLER_NAME, SYSTEM_NAMESPACE
from gpushare.errors import ApiError, ConfigError, GpuShareError
from gpushare.kubescheduler.turns import InstallerPod, Step, turn
from gpushare.overview.lists import listed, pods_path
from gpushare.ports import KubeEvent
from gpushare.runtime.program import FAILURE

_PODS: Final = pods_path(SYSTEM_NAMESPACE)
_SELECTOR: Final = f"component={INSTALLER_NAME}"
_POD_NAME: Final = "POD_NAME"
_TIMEOUT_S: Final = 600.0
"""Per control plane: pull images, wait for the extender, edit, restore."""
_POLL_S: Final = 2.0
_REASON: Final = "SchedulerNotEdited"


class _JobOwner(Struct):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _JobPodMeta(Struct, rename="camel"):
    name: str = ""
    owner_references: list[_JobOwner] = field(default_factory=list)


class _Terminated(Struct, rename="camel"):
    exit_code: int = 0
    message: str = ""


class _TerminatedState(Struct):
    terminated: _Terminated | None = None


class _JobContainer(Struct, rename="camel"):
    state: _TerminatedState = field(default_factory=_TerminatedState)
    last_state: _TerminatedState = field(default_factory=_TerminatedState)


class _JobPodSpec(Struct, rename="camel"):
    node_name: str = ""


class _JobPodStatus(Struct, rename="camel"):
    phase: str = ""
    container_statuses: list[_JobContainer] = field(default_factory=list)


class _JobPod(Struct):
    metadata: _JobPodMeta
    spec: _JobPodSpec = field(default_factory=_JobPodSpec)
    status: _JobPodStatus = field(default_factory=_JobPodStatus)


_decode = msgspec.json.Decoder(_JobPod).decode


@contextmanager
def in_turn(
    control_planes: int | None, *, timeout_s: float = _TIMEOUT_S, poll_s: float = _POLL_S
) -> Iterator[None]:
    """Waits until all control planes before this one are done; does not wait if the number is None.

    An error of the edit becomes an event of the Job, because its pods' logs are deleted with it. Raises
    ConfigError if another control plane failed, or the wait takes longer than ``timeout_s`` seconds per
    control plane.
    """
    if control_planes is None:
        yield
        return
    name = os.environ.get(_POD_NAME, "")
    if not name:
        raise ConfigError(f"--control-planes needs {_POD_NAME}, the name of this pod, in the environment")
    try:
        asyncio.run(_wait(name, control_planes, timeout_s * control_planes, poll_s))
        yield
    except GpuShareError as error:
        asyncio.run(_report(name, str(error)))
        raise


async def _wait(name: str, control_planes: int, timeout_s: float, poll_s: float) -> None:
    end, reported = time.monotonic() + timeout_s, ""
    async with KubeClient(await load_access()) as client:
        while True:
            step, reason = await _step(client, name, control_planes)
            if step is Step.EDIT:
                return
            if step is Step.STOP:
                raise ConfigError(reason)
            if time.monotonic() > end:
                raise ConfigError(
                    f"nothing was changed: timed out waiting for the other control planes: {reason}"
                )
            if reason != reported:
                click.echo(f"waiting: {reason}", err=True)
                reported = reason
            await asyncio.sleep(poll_s)


async def _step(client: KubeClient, name: str, control_planes: int) -> tuple[Step, str]:
    """The next step; waiting while the API server does not answer."""
    try:
        pods = [_installer_pod(_decode(raw)) for raw in await _raw_pods(client)]
    except (ApiError, msgspec.DecodeError) as error:
        return Step.WAIT, f"cannot list the pods of the installer: {error}"
    return turn(pods, name, control_planes)


async def _raw_pods(client: KubeClient) -> list[Raw]:
    return await listed(client, _PODS, {"labelSelector": _SELECTOR})


def _installer_pod(pod: _JobPod) -> InstallerPod:
    """With the exit code and message of the last failure of its container, if any."""
    states = [state for each in pod.status.container_statuses for state in (each.state, each.last_state)]
    ends = [state.terminated for state in states if state.terminated]
    end = ends[0] if ends else None
    return InstallerPod(
        pod.metadata.name,
        _job(pod).uid,
        pod.spec.node_name,
        pod.status.phase,
        end.exit_code if end else None,
        _failure(end.message) if end else "",
    )


def _failure(message: str) -> str:
    """The error in the last line of a log."""
    lines = message.strip().splitlines()
    return lines[-1].removeprefix(FAILURE) if lines else ""


def _job(pod: _JobPod) -> _JobOwner:
    return next((owner for owner in pod.metadata.owner_references if owner.kind == "Job"), _JobOwner())


async def _report(name: str, text: str) -> None:
    """Best effort: the log of the pod has the same text."""
    try:
        async with KubeClient(await load_access()) as client:
            pods = [pod for raw in await _raw_pods(client) if (pod := _decode(raw)).metadata.name == name]
            for pod in pods:
                job, node = _job(pod), pod.spec.node_name
                event = KubeEvent(
                    "Job", SYSTEM_NAMESPACE, job.name, job.uid, _REASON, f"{node}: {text}", warning=True
                )
                await write_event(client, event, component=INSTALLER_NAME, identity=name)
    except (GpuShareError, msgspec.DecodeError) as error:
        click.echo(f"cannot write an event: {error}", err=True)
