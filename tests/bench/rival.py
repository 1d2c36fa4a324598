"""Any other extender as a further arm of the benchmark: a command with ``PORT`` and ``KUBECONFIG``.

It listens on loopback, reads nodes and pods from the API server as an administrator, and answers filter and
bind below its prefix for pods that request ``aliyun.com/gpu-mem``.
"""

import json
from dataclasses import dataclass, field
from functools import partial

from devkit.ports import LOOPBACK, free_ports
from devkit.process import Process
from gpushare.contract import EXTENDER_PREFIX
from gpushare.errors import ApiError, ConfigError
from gpushare.kubescheduler.config import extender_entry, minimal
from testbed import Bed, gpu_pod
from testbed.control_plane.api import Object, read_text

_READY_S = 120.0
_CALL_S = 60.0


@dataclass(frozen=True)
class Rival:
    """An extender that is not ours: its command for a shell, and the path of its verbs."""

    command: str
    prefix: str = EXTENDER_PREFIX
    name: str = "rival"
    port: int = field(default_factory=lambda: free_ports(1)[0])

    @property
    def url(self) -> str:
        """URL for the scheduler."""
        return f"http://{LOOPBACK}:{self.port}{self.prefix}"

    @property
    def entry(self) -> Object:
        """Its entry in the configuration of the scheduler: filter and bind, as for the Aliyun extender."""
        return extender_entry(minimal(self.url), legacy=False)


async def start_rival(bed: Bed, rival: Rival, node: str) -> Process:
    """Start it, and return it when it lets a pod of one unit pass to this node.

    Raises DevkitError with the end of its log if it exits, or does not pass the node in time.
    """
    env = {"PORT": str(rival.port), "KUBECONFIG": str(bed.kubeconfig)}
    argv = ["/bin/sh", "-c", f"exec {rival.command}"]
    ready = partial(_passes, rival, node)
    return await bed.spawn(rival.name, argv, env=env, ready=ready, ready_s=_READY_S)


async def _passes(rival: Rival, node: str) -> bool:
    try:
        return await passed(rival, [node], 1) == 1
    except ApiError:
        return False


async def check(rival: Rival, names: list[str], units: int, expected: int) -> None:
    """Raise ConfigError if filter does not let this number of the nodes pass."""
    if (found := await passed(rival, names, units)) != expected:
        raise ConfigError(
            f"the rival lets {found} of {len(names)} nodes pass for a pod of {units} units, not {expected}: "
            "does it read the annotations ALIYUN_COM_GPU_MEM_* of pods?"
        )


async def passed(rival: Rival, names: list[str], units: int) -> int:
    """Return how many of the nodes pass its filter. Raises ApiError if it does not answer with JSON."""
    body = json.dumps({"Pod": gpu_pod("x", units), "NodeNames": names})
    text = await read_text(f"{rival.url}/filter", post=body, timeout_s=_CALL_S)
    try:
        return _count(json.loads(text))
    except (ValueError, AttributeError) as error:
        raise ApiError(f"POST {rival.url}/filter: no result of filter: {text[:200]}") from error


def _count(answer: Object) -> int:
    """Extenders answer with names or with whole nodes, and old ones with keys in lower case."""
    found = {key.lower(): value for key, value in answer.items() if value is not None}
    return len(found["nodenames"] if "nodenames" in found else found.get("nodes", {}).get("items") or ())
