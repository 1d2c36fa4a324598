"""Seals: signatures of bind annotations, which prove that an extender wrote them and that they are unchanged.

The owner of a pod can edit its annotations. A bind therefore writes a keyed digest of UID, node and GPUs, and
one of UID, node and mode; the key is in a Secret that only the extenders read. A claim without a valid seal
is ignored: its pod counts against every GPU until the node agent publishes the allocation. The mode is the
one that the second digest proves, regardless of the annotation. Pods older than the key were bound without
seals, perhaps by the Aliyun extender; their annotations are accepted if they are consistent. Without a key
all consistent annotations are accepted: a degraded mode.
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
    """A key and when it was written (as the API writes times). Without a key nothing is sealed or checked."""

    key: bytes = b""
    made: str = ""

    def seal(self, uid: str, node: str, shares: Shares, mode: Mode | None = None) -> str | None:
        """The value of the seal annotation; None without a key."""
        if not self.key:
            return None
        cards = self._digest(uid, node, shares)
        return f"{cards}.{self._digest(uid, node, mode)}" if mode else cards

    def checked(self, pod: Pod) -> Pod:
        """The pod with the claim and the mode that its seal proves."""
        if not self.key or pod.node is None or pod.created < self.made:
            return pod
        cards, _, proof = (pod.seal or "").partition(".")
        claim = pod.claim if pod.claim and self._proven(cards, pod, pod.claim) else None
        modes = (mode for mode in (pod.mode, *SHARING) if mode and self._proven(proof, pod, mode))
        mode = next(modes, None) if proof else None
        return pod if (claim, mode) == (pod.claim, pod.mode) else replace(pod, claim=claim, mode=mode)

    def _proven(self, digest: str, pod: Pod, fact: Shares | Mode) -> bool:
        genuine = self._digest(pod.uid, pod.node or "", fact)
        # As bytes: users may write any text there, and compare_digest takes only ASCII strings.
        return hmac.compare_digest(genuine.encode(), digest.encode(errors="replace"))

    def _digest(self, uid: str, node: str, fact: Shares | Mode) -> str:
        message = msgspec.json.encode([uid, node, fact])
        return hmac.digest(self.key, message, "sha256").hex()[:_DIGITS]
