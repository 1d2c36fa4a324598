"""Changes of an object in the API, as a watch reports them."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """An object was added or modified. ``key`` identifies it within its resource."""

    key: str
    value: T


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object was deleted from the API."""

    key: str
