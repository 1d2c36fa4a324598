"""Images of the services, as the pipeline builds them, for registries and for the testbed's nodes.

What belongs here: building with podman from the Containerfile at the project's root, digests, archives
that containerd takes. What does not: what is inside an image (the Containerfile), and the nodes
(``testbed.kubelets``).

    images = await ensure()
    await load(node, images)
    pod = {"containers": [{"name": "main", "image": images.references["extender"]}]}
"""

from release.build import Images, ensure, load
from release.needs import look
from release.recipe import REGISTRY, Order

__all__ = ["REGISTRY", "Images", "Order", "ensure", "load", "look"]
