"""Selects the context of a kubeconfig for a role: the requested one, or the only one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class ContextError(ValueError):
    """No context or no unique context; the message has the fix."""


def contexts(documents: Iterable[Mapping[str, Any]]) -> tuple[list[str], str]:
    """Return the names of all contexts and the current one ("" for none) of kubeconfigs, first ones first."""
    listed = list(documents)
    names = [each["name"] for document in listed for each in document.get("contexts") or []]
    current = next(
        (document["current-context"] for document in listed if document.get("current-context")), ""
    )
    return list(dict.fromkeys(names)), current


def choose(names: Sequence[str], current: str, requested: str, where: str, setting: str) -> str:
    """Return the context to use, "" if there is none; ``where`` and ``setting`` are for messages.

    Of several contexts the current one is not used, because it changes with every ``kubectl config
    use-context``. Raises ContextError.
    """
    if requested and requested not in names:
        raise ContextError(
            f'{setting} is "{requested}", which {where} does not have: use one of {_list(names)}'
        )
    if not requested and len(names) > 1:
        raise ContextError(
            f"{setting} is empty, and {where} has several contexts: {_list(names)} (current: "
            f"{current or 'none'}). Set {setting}, or cluster_context for all roles, to the context of this "
            "inventory's cluster"
        )
    return requested or (names[0] if names else "")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
