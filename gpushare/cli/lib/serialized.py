"""Documents as JSON or YAML."""

import json
from collections.abc import Mapping
from typing import Any


def serialized(content: Mapping[str, Any], output: str) -> str:
    """A document as ``json`` or ``yaml``, with a line end."""
    text = json.dumps(content, indent=2) + "\n"
    if output == "json":
        return text
    from gpushare.model.yaml_text import dump

    return f"---\n{dump(json.loads(text))}"
