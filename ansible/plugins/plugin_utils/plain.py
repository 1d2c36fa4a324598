"""Values of Ansible as plain Python types."""

from __future__ import annotations

import json
from typing import Any


def to_plain(value: Any) -> Any:
    """Return a value of JSON in plain types: PyYAML and json cannot write the strings of Ansible."""
    return json.loads(json.dumps(value))
