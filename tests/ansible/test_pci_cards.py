"""The names of GPUs by PCI device ID, compared with the table of models of gpushare."""

import re

from ansible_collections.gpushare.nodes.plugins.plugin_utils.pci_cards import CARDS, card_name, of_host
from gpushare.model.card_models import LISTED, is_data_centre


def test_every_listed_model_has_a_device_id() -> None:
    words = {word.upper() for name in CARDS.values() for word in re.split(r"[\s\-_/]+", name)}
    assert words >= LISTED


def test_unlisted_gpus_are_titans() -> None:
    unlisted = [name for name in CARDS.values() if not is_data_centre(name)]
    assert unlisted
    assert all("TITAN" in name for name in unlisted)


def test_ids_are_four_lower_case_digits() -> None:
    assert all(re.fullmatch("[0-9a-f]{4}", device) for device in CARDS)


def test_the_name_of_the_host_is_used_for_unknown_devices() -> None:
    assert card_name("1eb8", "TU104GL") == "Tesla T4"
    assert card_name("2684", "GeForce RTX 4090") == "GeForce RTX 4090"
    assert card_name("2684", None) == "NVIDIA 10de:2684"


def test_gpus_of_virtual_machines_are_not_of_the_host() -> None:
    gpus = [{"driver": name} for name in (None, "nvidia", "nouveau", "vfio-pci", "nvgrace_gpu_vfio_pci")]
    assert [gpu["driver"] for gpu in of_host(gpus)] == [None, "nvidia", "nouveau"]
