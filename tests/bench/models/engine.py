"""A decoder in PyTorch with a static cache; on a GPU a decoding step is one CUDA graph, a prompt is kernels.

Needs PyTorch 2.4 (``rms_norm``). Gradients must be off (``torch.set_grad_enabled``).
"""

from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - the name that PyTorch's documentation uses

from tests.bench.models.shapes import Shape

_WARM_UPS: Final = 3
"""Steps before the capture, as PyTorch's documentation asks."""
_PROMPTS: Final = 8
"""Lengths of prompts before the first request."""
_SPREAD: Final = 0.02
"""Standard deviation of weights."""
_BASE: Final = 1_000_000
"""Of the rotary position embedding."""
_EPSILON: Final = 1e-6


class TorchEngine:
    """Sequences of at most ``length`` tokens in each of ``slots``; token IDs stay on the device."""

    def __init__(self, shape: Shape, slots: int, length: int, seed: int, device: str) -> None:
        self.shape, self.slots, self.device = shape, slots, torch.device(device)
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        self._source = torch.Generator(self.device).manual_seed(seed)
        self._layers = [self._layer() for _ in range(shape.layers)]
        self._embedding = self._weights(shape.vocabulary, shape.hidden)
        self._head = self._embedding if shape.tied else self._weights(shape.vocabulary, shape.hidden)
        cache = (slots, shape.kv_heads, length, shape.head_dim)
        self._caches = [(self._zeros(*cache), self._zeros(*cache)) for _ in range(shape.layers)]
        self._cos, self._sin = self._rotary(length)
        self._all = torch.arange(length, device=self.device)
        self.tokens = torch.zeros(slots, dtype=torch.long, device=self.device)
        self.positions = torch.zeros(slots, dtype=torch.long, device=self.device)
        self._warm_up(length)
        self._graph = self._captured() if self.device.type == "cuda" else None

    def prefill(self, slot: int, prompt: int) -> None:
        """Begin a sequence with the first ``prompt`` token IDs."""
        self.begin(slot, self._all[:prompt] % self.shape.vocabulary)
        self.tokens[slot].item()  # waits, as a server that sends the token does

    def begin(self, slot: int, prompt: Any) -> None:
        """Begin a sequence with these token IDs; its first token is in ``tokens`` then."""
        hidden = F.embedding(prompt, self._embedding)
        count = len(prompt)
        cos, sin = self._cos[:count], self._sin[:count]
        for layer, (keys, values) in zip(self._layers, self._caches, strict=True):
            query, key, value = self._projected(layer, hidden, cos, sin)
            keys[slot, :, :count] = key.transpose(0, 1)
            values[slot, :, :count] = value.transpose(0, 1)
            hidden = self._after(layer, hidden, self._attended(query, key, value))
        self.tokens[slot] = self._chosen(hidden[-1:])[0]
        self.positions[slot] = count

    def decode(self) -> None:
        """Compute the next token of every slot."""
        if self._graph is None:
            self._step()
        else:
            self._graph.replay()
        self.tokens.tolist()  # waits, as above

    def _step(self) -> None:
        """One token for each slot: only operations that a CUDA graph can contain."""
        hidden = F.embedding(self.tokens, self._embedding)
        cos, sin = self._cos[self.positions], self._sin[self.positions]
        hidden_from = self._all[None, :] > self.positions[:, None]
        for layer, cache in zip(self._layers, self._caches, strict=True):
            query, key, value = self._projected(layer, hidden, cos, sin)
            self._append(cache, (key, value))
            hidden = self._after(layer, hidden, self._attended_in(cache, query, hidden_from))
        self.tokens.copy_(self._chosen(hidden))
        self.positions.add_(1)

    def _warm_up(self, length: int) -> None:
        """Let libraries choose and load their kernels for prompts of several lengths."""
        for part in range(1, _PROMPTS + 1):
            self.prefill(0, max(1, length * part // _PROMPTS))
        self.positions.zero_()

    def _captured(self) -> Any:
        """The graph of a step."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self.positions.zero_()
        torch.cuda.synchronize()
        return graph

    # --- layers ----------------------------------------------------------------------------------

    def _layer(self) -> dict[str, Any]:
        shape = self.shape
        width = shape.heads * shape.head_dim
        both = (shape.heads + 2 * shape.kv_heads) * shape.head_dim
        return {
            "qkv": self._weights(both, shape.hidden),
            "out": self._weights(shape.hidden, width),
            "gate_up": self._weights(2 * shape.inner, shape.hidden),
            "down": self._weights(shape.hidden, shape.inner),
            **{name: self._ones(shape.hidden) for name in ("before", "between")},
            **{name: self._ones(shape.head_dim) for name in ("query", "key")},
        }

    def _projected(self, layer: dict[str, Any], hidden: Any, cos: Any, sin: Any) -> tuple[Any, Any, Any]:
        """Queries, keys and values as [token, head, dimension], the first two with their positions."""
        shape = self.shape
        heads = (shape.heads, shape.kv_heads, shape.kv_heads)
        joined = F.linear(_normed(hidden, layer["before"]), layer["qkv"])
        parts = joined.view(len(hidden), sum(heads), shape.head_dim).split(heads, dim=1)
        query, key = (
            _rotated(_normed(part, layer[name]), cos, sin)
            for part, name in zip(parts[:2], ("query", "key"), strict=True)
        )
        return query, key, parts[2]

    def _attended(self, query: Any, key: Any, value: Any) -> Any:
        """Causal attention within a prompt."""
        group = self.shape.heads // self.shape.kv_heads
        by_head = [query, *(each.repeat_interleave(group, dim=1) for each in (key, value))]
        batch = (each.transpose(0, 1).unsqueeze(0) for each in by_head)
        return F.scaled_dot_product_attention(*batch, is_causal=True)[0].transpose(0, 1)

    def _append(self, cache: tuple[Any, Any], new: tuple[Any, Any]) -> None:
        """Write one token of each slot at its position."""
        at = self.positions.view(-1, 1, 1, 1).expand(-1, self.shape.kv_heads, 1, self.shape.head_dim)
        for stored, each in zip(cache, new, strict=True):
            stored.scatter_(2, at, each.unsqueeze(2))

    def _attended_in(self, cache: tuple[Any, Any], query: Any, hidden_from: Any) -> Any:
        """Attention of one token of each slot to its sequence; reads the whole cache, which is static."""
        keys, values = cache
        grouped = query.view(len(query), self.shape.kv_heads, -1, self.shape.head_dim)
        scores = grouped @ keys.transpose(-1, -2) * self.shape.head_dim**-0.5
        scores = scores.masked_fill(hidden_from[:, None, None], float("-inf"))
        weights = scores.softmax(-1, dtype=torch.float32).to(self.dtype)
        return (weights @ values).view(query.shape)

    def _after(self, layer: dict[str, Any], hidden: Any, attended: Any) -> Any:
        """The rest of a layer after its attention."""
        hidden = hidden + F.linear(attended.reshape(len(hidden), -1), layer["out"])
        gate, up = F.linear(_normed(hidden, layer["between"]), layer["gate_up"]).chunk(2, dim=-1)
        return hidden + F.linear(F.silu(gate) * up, layer["down"])

    def _chosen(self, hidden: Any) -> Any:
        """The most likely tokens; the last norm has no weights, which would all be 1."""
        return F.linear(_normed(hidden, None), self._head).argmax(-1)

    # --- tensors ---------------------------------------------------------------------------------

    def _weights(self, *size: int) -> Any:
        empty = torch.empty(size, dtype=self.dtype, device=self.device)
        return empty.normal_(0, _SPREAD, generator=self._source)

    def _zeros(self, *size: int) -> Any:
        return torch.zeros(size, dtype=self.dtype, device=self.device)

    def _ones(self, size: int) -> Any:
        return torch.ones(size, dtype=self.dtype, device=self.device)

    def _rotary(self, length: int) -> tuple[Any, Any]:
        """Cosines and sines as [position, 1, dimension], for each head."""
        half = torch.arange(0, self.shape.head_dim, 2, device=self.device) / self.shape.head_dim
        angles = torch.outer(torch.arange(length, device=self.device).float(), _BASE**-half)
        angles = torch.cat((angles, angles), dim=-1).unsqueeze(1)
        return angles.cos().to(self.dtype), angles.sin().to(self.dtype)


def _normed(hidden: Any, weight: Any) -> Any:
    return F.rms_norm(hidden, hidden.shape[-1:], weight, _EPSILON)


def _rotated(vectors: Any, cos: Any, sin: Any) -> Any:
    low, high = vectors.chunk(2, dim=-1)
    return vectors * cos + torch.cat((-high, low), dim=-1) * sin
