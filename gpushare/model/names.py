"""Names of Kubernetes objects. Imports nothing slow: ``--help`` loads it."""

import re
from typing import Final

LONGEST: Final = 253
_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
SUBDOMAIN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


def is_object_name(text: str) -> bool:
    """Whether a node, a pod or most other objects can have this name: a subdomain of RFC 1123.

    Others, such as ``..`` or ``a/b``, would be another path of the API.
    """
    return len(text) <= LONGEST and SUBDOMAIN.fullmatch(text) is not None
