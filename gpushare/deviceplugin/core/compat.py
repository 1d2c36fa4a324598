"""What the node agent does only to replace the Aliyun plugin in its own manifest. Pure.

Three flags select it: ``--device-list-strategy=envvar``, ``--device-id-strategy=index`` and
``--failure-as-env``.
"""

from collections.abc import Iterable, Mapping, Sequence

from gpushare.contract import ENV_CONTAINER, ENV_DEV, ENV_IDX, ENV_POD, ENV_VISIBLE_DEVICES
from gpushare.deviceplugin.core.interface import AllocateResponse
from gpushare.model.cards import Card
from gpushare.model.options import MemoryUnit


def indices(cards: Iterable[Card]) -> list[str]:
    """The names of GPUs by index, which may be those of other GPUs after a reboot."""
    return [str(card.index) for card in cards]


def by_environment(envs: Mapping[str, str], names: Sequence[str]) -> AllocateResponse:
    """A response that names the GPUs in the environment alone; an image or a pod may override it."""
    return AllocateResponse({**envs, ENV_VISIBLE_DEVICES: ",".join(names)})


def failure_env(amount: int, unit: MemoryUnit, cards: tuple[Card, ...], reason: str) -> AllocateResponse:
    """The Aliyun plugin's response without a suitable GPU: NVIDIA's hook fails the container at its start."""
    return AllocateResponse(
        {
            ENV_VISIBLE_DEVICES: f"no-gpu-has-{amount}{unit}-to-run",
            ENV_IDX: "-1",
            ENV_POD: str(amount),
            ENV_CONTAINER: str(amount),
            ENV_DEV: str(cards[0].units if cards else 0),
        },
        result=reason,
    )
