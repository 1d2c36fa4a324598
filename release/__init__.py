"""Images of the services, for registries and for nodes of the testbed.

What belongs here: building with podman from the Containerfile, digests, and archives for containerd. What
does not: the content of the images (the Containerfile), and the nodes (``testbed.kubelets``).

    images = await ensure()
    await load(node, images)
    pod = {"containers": [{"name": "main", "image": images.references["extender"]}]}
"""

from release.build import Images, ensure, load
from release.needs import look
from release.recipe import REGISTRY, Order

__all__ = ["REGISTRY", "Images", "Order", "ensure", "load", "look"]
