"""Images of the services, and releases.

What belongs here: building with podman from the Containerfile, digests, and archives for containerd. What
does not: the content of the images (the Containerfile), and nodes that run them (``testbed``).

    images = await ensure()
    pod = {"containers": [{"name": "main", "image": images.references["extender"]}]}
"""

from release.build import Images, ensure
from release.needs import look
from release.recipe import REGISTRY, Order

__all__ = ["REGISTRY", "Images", "Order", "ensure", "look"]
