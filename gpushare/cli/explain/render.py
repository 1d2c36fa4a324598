"""An answer as text, and as a versioned document for programs. Pure."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from gpushare.overview.documents import document
from gpushare.overview.explain.answer import Answer, PodState
from gpushare.overview.explain.nodes import NodeAnswer

_SHOWN_NODES: Final = 5


def answer_document(answer: Answer) -> dict[str, Any]:
    """Every node and every remedy."""
    return document("PodExplanation", **{**asdict(answer), "state": str(answer.state)})


def text(answer: Answer) -> str:
    """For a terminal: at most five nodes."""
    return "\n".join(_lines(answer)) + "\n"


def _lines(answer: Answer) -> Iterator[str]:
    yield f"Pod {answer.pod}: {answer.summary}."
    yield from (f"  {detail}" for detail in answer.details)
    for who, message in (("extender", answer.extender), ("scheduler", answer.scheduler)):
        if message:
            yield ""
            yield f"The {who}'s last message:"
            yield f"  {message}"
    if answer.state is PodState.NO_GPU:
        yield from _nodes(answer.nodes)
    if answer.remedies:
        yield ""
        yield "Do one of these:"
    for each in answer.remedies:
        yield f"  - {each.text}"
        if each.command:
            yield f"      {each.command}"
    yield from (f"note: {note}" for note in answer.notes)


def _nodes(nodes: tuple[NodeAnswer, ...]) -> Iterator[str]:
    sharing = [node for node in nodes if node.cards]
    for node in sharing[:_SHOWN_NODES]:
        yield ""
        yield f"Node {node.name}: {node.reason}"
        yield from (f"  {obstacle}" for obstacle in node.obstacles)
        for card in node.cards:
            model = f" {card.model}" if card.model else ""
            yield f"  GPU {card.index}{model}: {card.free} of {card.total} free: {card.verdict}"
    others = len(sharing) - _SHOWN_NODES
    without = [node for node in nodes if not node.cards]
    if others > 0 or without:
        yield ""
    if others > 0:
        yield f"{others} more nodes share GPUs (-o json shows all)."
    for node in without[:_SHOWN_NODES]:
        yield f"Node {node.name}: {node.reason}"
    if len(without) > _SHOWN_NODES:
        yield f"{len(without) - _SHOWN_NODES} more nodes share no GPUs."
