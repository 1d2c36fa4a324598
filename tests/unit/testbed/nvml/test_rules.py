"""Invalid descriptions of a stub NVML are rejected."""

from typing import Any

import msgspec
import pytest

from gpushare.errors import ConfigError
from testbed.nvml import PROFILES, card
from testbed.nvml.rules import parse

T4 = msgspec.to_builtins(PROFILES["T4"])
UUID = "GPU-00000000-0000-0000-0000-000000000000"


def rejection(**document: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(msgspec.json.encode({"era": 535, "cards": [T4, T4]} | document))
    return str(caught.value)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"colour": 1}, "unknown field `colour`"),
        ({"era": 390}, "era 390 is unknown: choose one of 418"),
        ({"cards": [T4 | {"warmth": 3}]}, "unknown field `warmth` - at `$.cards[0]`"),
        ({"cards": [T4 | {"temperature": -1}]}, "at `$.cards[0].temperature`"),
        ({"cards": [T4 | {"gpu_util": 101}]}, "at `$.cards[0].gpu_util`"),
        ({"cards": [T4 | {"total_mib": "15 GiB"}]}, "at `$.cards[0].total_mib`"),
        ({"cards": [T4 | {"uuid": "0"}]}, "at `$.cards[0].uuid`"),
        ({"cards": [T4 | {"pci": "4:0.0"}]}, "at `$.cards[0].pci`"),
        ({"cards": [T4 | {"name": "two\nlines"}]}, "at `$.cards[0].name`"),
        ({"cards": [T4 | {"used_mib": 15080}]}, "card 0: reserved_mib 281 and 15080 MiB in use are more"),
        ({"cards": [T4 | {"processes": [{"pid": 0}]}]}, "at `$.cards[0].processes[0].pid`"),
        ({"cards": [T4 | {"uuid": UUID}] * 2}, f"uuid {UUID} occurs twice"),
        ({"cards": [T4] * 33}, "at `$.cards`"),
        ({"pairs": [{"cards": [0, 2]}]}, "pair [0, 2] is not two of the 2 cards"),
        ({"pairs": [{"cards": [1, 1]}]}, "pair [1, 1] is not two of the 2 cards"),
        ({"pairs": [{"cards": [0, 1]}, {"cards": [1, 0]}]}, "pair [0, 1] occurs twice"),
        ({"pairs": [{"cards": [0, 1], "level": "near"}]}, "at `$.pairs[0].level`"),
        ({"pairs": [{"cards": [0, 1], "nvlinks": 1}]}, "card 0: uses 1 NVLinks but has 0"),
        ({"failures": [{"function": "nvmlMake", "code": 3}]}, "no function 'nvmlMake'"),
        ({"failures": [{"function": "nvmlDeviceGetNumaNodeId", "code": 3}]}, "NVML of era 535 has no"),
        ({"failures": [{"function": "nvmlInit", "code": 0}]}, "at `$.failures[0].code`"),
        ({"failures": [{"function": "nvmlDeviceGetName", "code": 3, "card": 2}]}, "there is no card 2"),
    ],
)
def test_an_invalid_field_is_reported(document: dict[str, Any], words: str) -> None:
    assert words in rejection(**document)


def test_an_unknown_profile_is_reported_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'K80' is unknown: choose one of T4, P40, V100, TITAN Xp"):
        card("K80")


def test_an_unknown_field_of_a_gpu_is_reported() -> None:
    with pytest.raises(ConfigError, match="'T4' has no field memory_mib"):
        card("T4", memory_mib=1)
