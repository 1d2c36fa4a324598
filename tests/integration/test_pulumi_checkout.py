"""``make preview``, ``up`` and ``drift`` in a user's checkout, with the example stack and without a uv.

The engine, the API server and the provider are real, the last two steps of the language host as well; what it
does before them is ``tests.support.fakes.language_host``, which says why.
"""

import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from components.manifests import everything
from components.stack import from_file, load
from devkit.errors import DevkitError
from devkit.process import run_text
from testbed import Bed, SimGpu, SimNode, Testbed
from testbed.pulumi import old_tokens
from tests.support.builders.stacks import STACKS
from tests.support.fixtures.checkouts import NOT_THE_USERS, check_out, user_of_pulumi
from tests.support.fixtures.clusters import CONTROL_PLANE, names_of, uids_by_name

RENDERED = everything(load(from_file(STACKS["example"])))

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]


@dataclass
class Checkout:
    """A fresh checkout with the example as its stack "test", and a user who has the CLI of Pulumi only."""

    bed: Bed
    folder: Path
    env: dict[str, str]

    async def run(self, *argv: str) -> str:
        """Run a command to its end. Raises DevkitError with its stderr if it fails."""
        unset = [f"--unset={name}" for name in NOT_THE_USERS]
        env = [f"{key}={value}" for key, value in self.env.items()]
        return await run_text(["/usr/bin/env", *unset, *env, *argv], 300, cwd=self.folder)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def checkout() -> AsyncIterator[Checkout]:
    async with Testbed() as bed:
        await bed.add_nodes([*CONTROL_PLANE, SimNode("gpu", [SimGpu()])])
        await old_tokens(bed)
        # The old language host runs no policy packs.
        env = {**await user_of_pulumi(bed), "STACK": "test", "POLICY_PACKS": ""}
        folder = await check_out(bed.folder / "checkout")
        shutil.copy(folder / "Pulumi.example.yaml", folder / "Pulumi.test.yaml")
        made = Checkout(bed, folder, env)
        await made.run("pulumi", "stack", "init", "test", "--non-interactive")
        yield made


async def installed(checkout: Checkout) -> list[str]:
    """The distributions in the checkout's environment."""
    return sorted(path.name for path in checkout.folder.glob(".venv/lib/*/site-packages/*.dist-info"))


async def test_a_preview_names_every_object_of_the_example(checkout: Checkout) -> None:
    assert not shutil.which("uv", path=checkout.env["PATH"])
    text = await checkout.run("make", "preview")
    names = [f'"{each["kind"]}/{each["metadata"]["name"]}"' for each in RENDERED]
    assert [name for name in names if name not in text] == []


async def test_up_deploys_the_example(checkout: Checkout) -> None:
    before = await uids_by_name(checkout.bed)
    await checkout.run("make", "up")
    assert (await uids_by_name(checkout.bed)).keys() - before.keys() == names_of(RENDERED)


async def test_drift_is_an_object_that_was_deleted_by_hand(checkout: Checkout) -> None:
    await checkout.run("make", "drift")
    account = next(each["metadata"] for each in RENDERED if each["kind"] == "ServiceAccount")
    await checkout.bed.kubectl(
        "delete", "serviceaccount", account["name"], f"--namespace={account['namespace']}"
    )
    with pytest.raises(DevkitError, match="no changes were expected for preview but changes were proposed"):
        await checkout.run("make", "drift")


async def test_pulumi_install_removes_nothing_that_make_setup_created(checkout: Checkout) -> None:
    await checkout.run("make", "setup")
    before = await installed(checkout)
    uv = str(checkout.folder / ".venv" / "bin" / "uv")
    await checkout.run("env", f"UV_PROJECT_ENVIRONMENT={checkout.folder / '.venv'}", uv, "sync")
    assert await installed(checkout) == before
    assert "httptools" in {name.partition("-")[0] for name in before}
