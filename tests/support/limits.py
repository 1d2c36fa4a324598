"""The GPU memory limits of pods, computed from annotations without code of the product."""

import json

from gpushare.contract import ANN_CARDS, ANN_IDX, ANN_POD
from testbed import Bed


async def limits(bed: Bed) -> list[tuple[str, str]]:
    """Return (pod, GPU memory limit) of the running pods, each on one GPU, sorted by pod name."""
    cards = {
        (node["metadata"]["name"], str(card["index"])): card
        for node in await bed.api.items("/api/v1/nodes")
        for card in json.loads(node["metadata"]["annotations"].get(ANN_CARDS, "[]"))
    }
    pods = await bed.api.items("/api/v1/namespaces/default/pods", fieldSelector="status.phase=Running")
    found = []
    for pod in pods:
        notes = pod["metadata"]["annotations"]
        card = cards[pod["spec"]["nodeName"], notes[ANN_IDX]]
        found.append((pod["metadata"]["name"], _limit(card["mib"], int(notes[ANN_POD]), card["units"])))
    return sorted(found)


def _limit(card_mib: int, units: int, card_units: int) -> str:
    return f"{card_mib * units // card_units} MiB = floor({card_mib} MiB x {units} / {card_units})"
