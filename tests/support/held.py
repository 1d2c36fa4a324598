"""Nodes whose containers the isolation library holds to their amounts, and what its regions say.

What belongs here: the library as its image has it, programs that take memory, a card of both stubs. What
does not: pods, and what a test asks of them.
"""

from collections.abc import Iterable
from pathlib import Path

from gpushare import contract
from gpushare.installer.install import install
from gpushare.isolation import layout, region
from gpushare.isolation.layout import DirectoryOwner
from testbed import Bed
from testbed.control_plane.api import Object
from testbed.cuda import CudaCard, CudaStub
from testbed.daemons.agent import CardNode, add_card_node
from testbed.kubelets import KubeletSpec, needs
from testbed.nvml import card, cdi
from tests.support import cuda_image
from tests.support.installer import packaged
from tests.support.isolation import build

IMAGE = "docker.io/testbed/cuda:1"
ERA = 418
V100_MIB = 16130


def library(folder: Path) -> Path:
    """The package of the library, built into ``folder``."""
    build(folder, Path(contract.ISOLATION_INSIDE))
    return packaged(folder)


def image(folder: Path) -> Path:
    """The archive of ``IMAGE``, made in ``folder``."""
    archive = folder / "cuda.tar"
    cuda_image.save(archive, IMAGE, cuda_image.programs(folder), needs.look().busybox)
    return archive


async def add_held_node(
    bed: Bed, label: tuple[str, str], package: Path, archives: Iterable[Path], *, context_mib: int = 0
) -> tuple[CardNode, CudaStub]:
    """Add a node with one V100 of 15 units and the library, no agent yet; with it the driver of its card.

    Each process that uses the card takes ``context_mib`` of it.
    """
    spec = KubeletSpec("v100", labels=dict([label]), runtime="nvidia")
    node = await add_card_node(bed, spec, [card("V100")], era=ERA)
    cards = [CudaCard(node.stub.uuid(0), V100_MIB, context_mib, "Tesla V100-SXM2-16GB")]
    cuda = CudaStub(bed.folder / "cuda", era=ERA, cards=cards)
    for path in (bed.folder / "cuda").iterdir():
        path.chmod(0o666)
    node.kubelet.path(cdi.FILE).write_text(cuda_image.cdi_text(node.stub, cuda))
    for archive in archives:
        await node.kubelet.load_images(archive)
    node.kubelet.path(contract.ISOLATION_STATE).mkdir()
    install(package, node.kubelet.path(contract.ISOLATION_LIBRARIES))
    return node, cuda


def place(node: CardNode, found: Object) -> Path:
    """Where limit and region of a pod's container are, as seen from outside."""
    owner = DirectoryOwner(found["metadata"]["uid"], found["spec"]["containers"][0]["name"])
    return layout.link_of(node.kubelet.path(contract.ISOLATION_STATE), owner)


def region_of(node: CardNode, found: Object) -> region.Region:
    """What the region of a pod's container says, once a program of it has used the card."""
    read = _read(node, found)
    assert read is not None, "no program has used the card"
    return read


def counted(node: CardNode, found: Object) -> int:
    """Bytes of card 0 that a pod's container has by the library's count."""
    read = _read(node, found)
    return read.cards[0].used if read else 0


def _read(node: CardNode, found: Object) -> region.Region | None:
    return region.read((place(node, found) / layout.REGION).read_bytes)
