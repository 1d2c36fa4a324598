"""Certificates of the stack under the real engine: made in the cluster, and unknown to Pulumi.

The provider is ``tests.support.fakes.apply_provider``, which says why. Nodes are simulated: the Jobs do not
run, and the test runs their command.
"""

import base64
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from components.stack import from_file
from devkit.process import run_text
from gpushare.contract import (
    AUTHORITY_SECRET,
    CLIENT_TLS_SECRET,
    EXTENDER_TLS_SECRET,
    METRICS_AUTHORITY_SECRET,
    METRICS_TLS_SECRET,
    USAGE_API_GROUP,
)
from testbed import Bed, Testbed
from testbed.pulumi import PulumiStack
from tests.support.builders.stacks import STACKS
from tests.support.fakes.apply_provider import program
from tests.support.fixtures.clusters import CONTROL_PLANE

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

CONFIG: dict[str, Any] = from_file(STACKS["node-port"])
SECRETS = "/api/v1/namespaces/kube-system/secrets"
NAMES = (
    AUTHORITY_SECRET,
    EXTENDER_TLS_SECRET,
    CLIENT_TLS_SECRET,
    METRICS_AUTHORITY_SECRET,
    METRICS_TLS_SECRET,
)
USAGE = f"v1.{USAGE_API_GROUP}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PulumiStack]:
    provider: Path = program(tmp_path_factory.mktemp("provider"))
    async with Testbed() as bed:
        await bed.add_nodes(CONTROL_PLANE)
        made = await PulumiStack.create(bed, CONFIG, provider=provider)
        await made.up()
        command = [sys.executable, "-m", "gpushare", "certificates", f"--kubeconfig={bed.kubeconfig}"]
        await run_text(command, timeout_s=60)
        await run_text([*command, f"--api-service={USAGE}"], timeout_s=60)
        yield made


async def data(bed: Bed) -> dict[str, dict[str, str]]:
    return {name: (await bed.api.get(f"{SECRETS}/{name}"))["data"] for name in NAMES}


async def test_an_update_or_a_refresh_changes_nothing_and_keeps_the_certificates(stack: PulumiStack) -> None:
    before = await data(stack.bed)
    assert (await stack.up()).changes == {}
    assert (await stack.up("--refresh")).changes == {}
    assert await data(stack.bed) == before


async def test_the_stack_leaves_the_ca_of_the_metrics_api_to_its_job(stack: PulumiStack) -> None:
    await stack.up("--refresh")
    found = await stack.bed.api.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{USAGE}")
    assert found["spec"]["caBundle"] == (await data(stack.bed))[METRICS_TLS_SECRET]["ca.crt"]


async def test_no_private_key_is_readable_in_the_state_even_after_a_refresh(stack: PulumiStack) -> None:
    await stack.refresh()
    state = json.dumps(await stack.export())
    for secret in (await data(stack.bed)).values():
        assert secret["tls.key"] not in state
        assert base64.b64decode(secret["tls.key"]).decode().splitlines()[1] not in state


async def test_a_change_of_the_stack_keeps_the_certificates(stack: PulumiStack) -> None:
    before = await data(stack.bed)
    stack.configure({**CONFIG, "extender": {**CONFIG["extender"], "logLevel": "debug"}})
    assert set((await stack.up()).changes) == {"Deployment/kube-system/gpushare-schd-extender"}
    assert await data(stack.bed) == before
