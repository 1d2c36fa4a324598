"""The page "Argo CD and Flux": kubectl's kustomize builds its files, and a real API server takes them.

Argo CD and Flux do not run here. ``tests/components/test_gitops.py`` compares the examples with all stacks.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from components.manifests import everything
from components.stack import load
from testbed import SchedulerSpec, Testbed
from tests.support.builders.stacks import DIGEST, ROOT
from tests.support.fixtures.readers import Reader
from tests.support.pages import Command, steps

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

PAGE = ROOT / "docs/how-to/gitops.md"
COMMANDS = [each for each in steps(PAGE.read_text()) if isinstance(each, Command)]
STACK: dict[str, Any] = {
    "kubernetesVersion": "1.36",
    "extender": {"image": DIGEST, "exposure": "node-port", "replicas": 3, "certificatesImage": DIGEST},
    "devicePlugins": [{"image": DIGEST, "nodeSelector": {"cgpu": "true"}}],
    "isolation": {"image": DIGEST},
    "mps": {"image": DIGEST},
    "tenants": [{"name": "team-a", "gpuMem": 32, "priority": 1000}],
}
CLUSTER = "clusters/west/gpushare"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reader(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Reader]:
    """A reader who has run all commands of the page."""
    config = {f"gpushare:{key}": value for key, value in STACK.items()}
    async with Testbed(kwok=False, scheduler=SchedulerSpec(None)) as bed:
        made = await Reader.of(bed, tmp_path_factory.mktemp("gitops"))
        (made.checkout / "Pulumi.west.yaml").write_text(yaml.safe_dump({"config": config}))
        for command in COMMANDS:
            await made.follow(command)
        yield made


async def built(reader: Reader, folder: Path) -> list[Any]:
    return list(yaml.safe_load_all(await reader.bed.kubectl("kustomize", str(folder))))


def identities(objects: list[Any]) -> list[tuple[str, str, str]]:
    return sorted(
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in objects
    )


def kustomization(folder: Path, patches: list[Any]) -> Path:
    text = yaml.safe_dump({"resources": ["objects.yaml"], "patches": patches})
    (folder / "kustomization.yaml").write_text(text)
    return folder


async def accept(reader: Reader, objects: list[Any]) -> None:
    """Apply as both tools do; another namespace of a tenant must exist for a dry run."""
    for each in objects:
        if each["kind"] == "Namespace":
            await reader.bed.kubectl("apply", "--server-side", "--filename=-", stdin=yaml.safe_dump(each))
    text = yaml.safe_dump_all(objects)
    await reader.bed.kubectl("apply", "--server-side", "--dry-run=server", "--filename=-", stdin=text)


async def test_argo_cd_gets_every_object_with_its_wave(reader: Reader) -> None:
    objects = await built(reader, reader.checkout / CLUSTER)
    assert identities(objects) == identities(everything(load(STACK)))
    await accept(reader, objects)


async def test_flux_gets_every_object_once_and_keeps_what_others_use(reader: Reader) -> None:
    flux = yaml.safe_load_all((ROOT / "examples/gitops/flux/kustomizations.yaml").read_text())
    objects: list[Any] = []
    for each in flux:
        folder = reader.checkout / each["spec"]["path"]
        objects += await built(reader, kustomization(folder, each["spec"].get("patches", [])))
    assert identities(objects) == identities(everything(load(STACK)))
    (tenant,) = [each for each in objects if each["kind"] == "Namespace"]
    assert tenant["metadata"]["annotations"] == {"kustomize.toolkit.fluxcd.io/prune": "disabled"}
    await accept(reader, objects)
