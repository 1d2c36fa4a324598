"""A FAKE of a device plugin: tests set its devices and answers."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpushare.deviceplugin.core.interface import AllocateResponse, Device, Rejected
from gpushare.deviceplugin.metrics import PluginMetrics

RESOURCE = "aliyun.com/gpu-mem"


@dataclass
class FakePlugin:
    """Offers ``stock``; ``decide`` answers Allocate."""

    stock: list[Device] = field(default_factory=lambda: [Device("a"), Device("b"), Device("c")])
    decide: Callable[[Sequence[str]], AllocateResponse | Rejected] = lambda ids: AllocateResponse(
        envs={"IDS": ",".join(ids)}
    )
    resource: str = RESOURCE
    socket: str = "plugin.sock"
    states: list[bool] = field(default_factory=list)
    slow: asyncio.Event | None = None
    """If set, Allocate waits for it."""
    allocating: asyncio.Event = field(default_factory=asyncio.Event)
    _restocked: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def up(self) -> bool:
        return bool(self.states) and self.states[-1]

    def restock(self, *devices: Device) -> None:
        self.stock = list(devices)
        self._restocked.set()

    def devices(self) -> Sequence[Device]:
        self._restocked.clear()
        return self.stock

    async def changed(self) -> None:
        await self._restocked.wait()

    async def prefer(self, available: Sequence[str], must: Sequence[str], size: int) -> Sequence[str]:
        return [*must, *sorted(set(available) - set(must))][:size]

    async def allocate(self, ids: Sequence[str]) -> AllocateResponse | Rejected:
        self.allocating.set()
        if self.slow:
            await self.slow.wait()
        return self.decide(ids)

    def registered(self, *, up: bool) -> None:
        self.states.append(up)


def sample(metrics: PluginMetrics, name: str, **labels: str) -> float | None:
    """The value of a metric of the resource; None if there is none."""
    return metrics.registry.get_sample_value(name, {"resource": RESOURCE} | labels)
