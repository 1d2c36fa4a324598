"""The Helm chart as an OCI image layout in a tar, for registries. Pure.

Source of the format: the OCI image specification, ``image-layout.md``, and Helm's media types
(helm.sh/docs/topics/registries).
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from release.archives import ArchiveFile, tar

_CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
_CONTENT: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"


def layout(about: Mapping[str, Any], chart: bytes) -> bytes:
    """Return the layout of a chart; ``about`` is the content of Chart.yaml."""
    config = _json(about)
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, config),
            "layers": [_descriptor(_CONTENT, chart)],
            "annotations": {
                "org.opencontainers.image.title": about["name"],
                "org.opencontainers.image.version": about["version"],
            },
        }
    )
    named = {"org.opencontainers.image.ref.name": about["version"]}
    index = {
        "schemaVersion": 2,
        "mediaType": _INDEX,
        "manifests": [{**_descriptor(_MANIFEST, manifest), "annotations": named}],
    }
    blobs = {f"blobs/sha256/{_digest(each)}": ArchiveFile(each) for each in (config, chart, manifest)}
    return tar(
        {
            "oci-layout": ArchiveFile(_json({"imageLayoutVersion": "1.0.0"})),
            "index.json": ArchiveFile(_json(index)),
            **blobs,
        }
    )


def _descriptor(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{_digest(content)}", "size": len(content)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
