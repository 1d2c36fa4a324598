"""Names of resources that are meant to be ours: misspelt ones, and those of other systems. Pure.

HAMi's names and units: https://github.com/Project-HAMi/HAMi/blob/master/docs/config.md.
"""

from difflib import get_close_matches
from typing import Final

from gpushare.contract import (
    LABEL_CARDS_PER_POD,
    MANAGED_RESOURCES,
    RESOURCE_CORE,
    RESOURCE_COUNT,
    RESOURCE_MEM,
)
from gpushare.errors import InvalidRequest
from gpushare.model.quantity import parse_quantity

HAMI_MEMORY: Final = "nvidia.com/gpumem"
HAMI_MEMORY_PERCENT: Final = "nvidia.com/gpumem-percentage"
HAMI_CORES: Final = "nvidia.com/gpucores"
_OF_HAMI: Final = {
    HAMI_MEMORY: ", in MiB",
    HAMI_MEMORY_PERCENT: ", a part of a GPU in percent",
    HAMI_CORES: ", in percent",
}
_MIB_PER_GIB: Final = 1024
_ALIKE: Final = 0.75
_DOMAIN: Final = RESOURCE_MEM.partition("/")[0]


def replacement(name: str, amount: object = None) -> str:
    """What to write instead of a resource that resembles ours; empty for another one."""
    if name in MANAGED_RESOURCES:
        return ""
    if name == RESOURCE_COUNT:
        return f"the pod label {LABEL_CARDS_PER_POD}"
    if name == HAMI_MEMORY:
        return f"{RESOURCE_MEM}{_in_gib(amount)}"
    return {HAMI_MEMORY_PERCENT: RESOURCE_MEM, HAMI_CORES: RESOURCE_CORE}.get(name) or _alike(name)


def meant(name: str, amount: object = None) -> str:
    """What a resource was probably meant to be, as a sentence; empty for one that does not resemble ours."""
    instead = replacement(name, amount)
    if not instead:
        return ""
    if name == RESOURCE_COUNT:
        return f"{name} cannot be requested: the number of GPUs of a pod is {instead}"
    if name in _OF_HAMI:
        return f"{name} is a name of HAMi{_OF_HAMI[name]}: here write {instead}"
    return f"did you mean {instead}? {name} is no resource of gpushare"


def _in_gib(amount: object) -> str:
    """The amount in whole GiB, at least as much; nothing for an amount that cannot be read."""
    try:
        return f": {-(-parse_quantity(amount) // _MIB_PER_GIB)}"
    except InvalidRequest:
        return ""


def _alike(name: str) -> str:
    """The resource of ours that a name of our domain resembles; a name without domain may lack it."""
    domain, _, rest = name.rpartition("/")
    if domain not in (_DOMAIN, "", "aliyun", "alibabacloud.com", "aliyun.accelerator"):
        return ""
    candidates = {each.partition("/")[2]: each for each in MANAGED_RESOURCES}
    found = get_close_matches(rest.lower().replace("_", "-"), candidates, 1, _ALIKE)
    if found:
        return candidates[found[0]]
    if domain == _DOMAIN and rest.lower().startswith("gpu"):
        return RESOURCE_CORE if "core" in rest.lower() else RESOURCE_MEM
    return ""
