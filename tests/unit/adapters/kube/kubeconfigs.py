"""Kubeconfig files for tests."""

import json
from pathlib import Path
from typing import Any


def written(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> str:
    """A file with the context ``main``, the cluster ``c`` and the user ``u``."""
    document = {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://api.test:6443"} | cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(document))
    return str(path)
