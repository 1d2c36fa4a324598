"""The codec: what all objects of the API have, and lists and watches of them.

Only the fields that we read are decoded; msgspec skips the rest without building it. Wrong types
are refused with the path of the field. Pods are in ``wire_pods``, nodes in ``wire_nodes``.
"""

from typing import Generic, TypeVar

import msgspec
from msgspec import Struct, field

T = TypeVar("T")


class ListMeta(Struct, rename="camel"):
    """The metadata of a list page."""

    resource_version: str = ""
    continue_: str = field(default="", name="continue")


class ListPage(Struct, Generic[T]):
    """One page of a list."""

    items: list[T] | None = None
    metadata: ListMeta = field(default_factory=ListMeta)


class WatchEvent(Struct):
    """One line of a watch; ``object`` is decoded once the type is known."""

    type: str
    object: msgspec.Raw


class BareMeta(Struct, rename="camel"):
    """What every object's metadata has."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Bare(Struct):
    """An object of which only the metadata matters; also the Status of a failed watch."""

    metadata: BareMeta = field(default_factory=BareMeta)
    code: int = 0
    message: str = ""


class Condition(Struct):
    """One condition of a pod's or a node's status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class WireConfigMap(Struct):
    """A ConfigMap."""

    metadata: BareMeta = field(default_factory=BareMeta)
    data: dict[str, str] | None = None
