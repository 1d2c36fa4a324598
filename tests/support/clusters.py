"""Clusters for stacks: what the old official provider expects of one, and what is in it.

What belongs here: reading and preparing a cluster in a test. What does not: running the engine
(``testbed.pulumi``).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from testbed import Bed, SimNode
from tests.support.fields import differences, seen_through

Object = Mapping[str, Any]

CONTROL_PLANE = [
    # A loopback address is no endpoint of a Service.
    SimNode(
        f"control-{index}",
        address=f"192.0.2.{index + 1}",
        labels={"node-role.kubernetes.io/control-plane": ""},
    )
    for index in range(3)
]

KINDS = (
    "clusterroles,clusterrolebindings,configmaps,daemonsets,deployments,jobs,namespaces,"
    "poddisruptionbudgets,priorityclasses,resourcequotas,rolebindings,roles,secrets,serviceaccounts,services"
)
"""All that a stack can make."""
_MADE_BY_KUBERNETES = ("ConfigMap/kube-root-ca.crt", "ServiceAccount/default")


def name_of(each: Object) -> str:
    """ "<kind>/<namespace>/<name>", as ``testbed.pulumi`` names objects."""
    meta = each["metadata"]
    return "/".join(filter(None, (each["kind"], meta.get("namespace"), meta["name"])))


def names_of(objects: Iterable[Object]) -> set[str]:
    return {name_of(each) for each in objects}


async def unlike(bed: Bed, wanted: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the API server has not what is wanted: "<name>: <path of the field>"."""
    listed = {"apiVersion": "v1", "kind": "List", "items": wanted}
    given = await bed.kubectl("get", "-f", "-", "--output=json", stdin=json.dumps(listed))
    pairs = zip(wanted, json.loads(given)["items"], strict=True)
    return [
        f"{name_of(one)}: {path}" for one, live in pairs for path in differences(seen_through(live, one), one)
    ]


async def held(bed: Bed) -> dict[str, str]:
    """The UIDs of all objects of ``KINDS`` that nobody but a person or an engine made, by name."""
    found = json.loads(await bed.kubectl("get", KINDS, "--all-namespaces", "--output=json"))["items"]
    return {
        name_of(each): each["metadata"]["uid"]
        for each in found
        if f"{each['kind']}/{each['metadata']['name']}" not in _MADE_BY_KUBERNETES
    }
