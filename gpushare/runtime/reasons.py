"""Reasons that repeat, such as the error of an attempt that is made every few seconds."""

from collections.abc import Container, KeysView


class Reasons:
    """The last reason of each thing, to report each reason once until it changes or ends."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    @property
    def things(self) -> KeysView[str]:
        """The things that have a reason."""
        return self._last.keys()

    def is_new(self, reason: str, about: str = "") -> bool:
        """Whether the thing had another reason before, or none."""
        before, self._last[about] = self._last.get(about), reason
        return reason != before

    def end(self, about: str = "") -> bool:
        """The thing has no reason any more; returns whether it had one."""
        return self._last.pop(about, None) is not None

    def keep(self, things: Container[str]) -> None:
        """Forget all other things."""
        self._last = {about: reason for about, reason in self._last.items() if about in things}
