"""Seals: proof that annotations on a bound pod are our own and untouched, across restarts and replicas.

A pod's UID is not known before the pod exists, but its owner can edit annotations afterwards. So a
bind writes a keyed digest of UID, node and cards, and one of UID, node and mode; the key lies in a Secret
that only the extenders read. A claim without a valid seal is void: its pod counts on every card until the
node agent speaks. The mode is the one that the second digest proves, whatever the annotation says.
Pods older than the key were bound before there were seals, and are believed where they agree with
themselves. Without the right to the Secret everything consistent is believed: a reduced mode.
"""

import hmac
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from gpushare.model.annotations import Shares
from gpushare.model.modes import SHARING, Mode
from gpushare.model.objects import Pod

_DIGITS: Final = 32


@dataclass(frozen=True, slots=True)
class Sealer:
    """A key and when it was made (as the API writes times). No key: nothing is sealed or checked."""

    key: bytes = b""
    made: str = ""

    def seal(self, uid: str, node: str, shares: Shares, mode: Mode | None = None) -> str | None:
        """The annotation's value for a placement."""
        if not self.key:
            return None
        cards = self._digest(uid, node, shares)
        return f"{cards}.{self._digest(uid, node, mode)}" if mode else cards

    def checked(self, pod: Pod) -> Pod:
        """The pod, without its claim where that is not ours, and with the mode that is proven."""
        if not self.key or pod.node is None or pod.created < self.made:
            return pod
        cards, _, proof = (pod.seal or "").partition(".")
        claim = pod.claim if pod.claim and self._proven(cards, pod, pod.claim) else None
        modes = (mode for mode in (pod.mode, *SHARING) if mode and self._proven(proof, pod, mode))
        mode = next(modes, None) if proof else None
        return pod if (claim, mode) == (pod.claim, pod.mode) else replace(pod, claim=claim, mode=mode)

    def _proven(self, digest: str, pod: Pod, fact: Shares | Mode) -> bool:
        genuine = self._digest(pod.uid, pod.node or "", fact)
        # As bytes: anybody may write any text there, and only ASCII strings can be compared.
        return hmac.compare_digest(genuine.encode(), digest.encode(errors="replace"))

    def _digest(self, uid: str, node: str, fact: Shares | Mode) -> str:
        message = msgspec.json.encode([uid, node, fact])
        return hmac.digest(self.key, message, "sha256").hex()[:_DIGITS]
