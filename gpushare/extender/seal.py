"""Seals: proof that annotations on a bound pod are our own and untouched, across restarts and replicas.

A pod's UID is not known before the pod exists, but its owner can edit annotations afterwards. So a
bind writes a keyed digest of UID, node and cards; the key lies in a Secret that only the extenders
read. A claim without a valid seal is void: its pod counts on every card until the node agent speaks.
Pods older than the key were bound before there were seals, and are believed where they agree with
themselves. Without the right to the Secret everything consistent is believed: a reduced mode.
"""

import hashlib
import hmac
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from gpushare.model.annotations import Shares
from gpushare.model.objects import Pod

_DIGITS: Final = 32


@dataclass(frozen=True, slots=True)
class Sealer:
    """A key and when it was made (as the API writes times). No key: nothing is sealed or checked."""

    key: bytes = b""
    made: str = ""

    def seal(self, uid: str, node: str, shares: Shares) -> str | None:
        """The annotation's value for a placement."""
        if not self.key:
            return None
        message = msgspec.json.encode([uid, node, shares])
        return hmac.new(self.key, message, hashlib.sha256).hexdigest()[:_DIGITS]

    def checked(self, pod: Pod) -> Pod:
        """The pod, without its claim where that is not ours."""
        if not self.key or pod.claim is None or pod.node is None or pod.created < self.made:
            return pod
        genuine = self.seal(pod.uid, pod.node, pod.claim) or ""
        # As bytes: anybody may write any text there, and only ASCII strings can be compared.
        same = hmac.compare_digest(genuine.encode(), (pod.seal or "").encode(errors="replace"))
        return pod if same else replace(pod, claim=None)
