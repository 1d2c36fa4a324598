"""The images of our services on a node, without a registry."""

import asyncio
import tempfile
from pathlib import Path

from release import Images, layout
from testbed.kubelets.node import KubeletNode


async def load(node: KubeletNode, images: Images) -> None:
    """Load the images into the containerd of a node under their references, as if pulled."""
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        path = Path(archive.name)
        await asyncio.to_thread(layout.pack, images.folder, images.references, path)
        await node.load_images(path)
