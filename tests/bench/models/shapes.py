"""The shapes of models. Values are those of the published configurations; weights are random."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Shape(NamedTuple):
    """A decoder with grouped-query attention, RMS norms and gated layers (SwiGLU), as Qwen3 has them.

    ``heads`` of queries share ``kv_heads`` of keys and values, each of ``head_dim``. ``tied`` is whether the
    embedding is the output layer too.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    tied: bool = True

    @property
    def parameters(self) -> int:
        """The number of weights, without those of norms."""
        attention = self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads)
        layer = attention + 3 * self.hidden * self.inner
        return self.layers * layer + (1 if self.tied else 2) * self.vocabulary * self.hidden


SHAPES: Final[Mapping[str, Shape]] = {
    "qwen3-4b": Shape(36, 2560, 32, 8, 128, 9728, 151_936),
    "qwen3-8b": Shape(36, 4096, 32, 8, 128, 12_288, 151_936, tied=False),
    "tiny": Shape(2, 64, 4, 2, 16, 128, 256),
}
"""By name; "tiny" is for tests."""

_BYTES: Final = 2
"""Of a number in bfloat16."""
_OVERHEAD_MIB: Final = 3072
"""A context, code of libraries, their workspaces, and intermediate results of a prompt: an assumption."""


def needed_mib(shape: Shape, slots: int, length: int) -> int:
    """GPU memory that a server needs: weights, the static cache of all slots, and the overhead."""
    cache = 2 * shape.layers * slots * shape.kv_heads * length * shape.head_dim
    return _BYTES * (shape.parameters + cache) // (1 << 20) + _OVERHEAD_MIB
