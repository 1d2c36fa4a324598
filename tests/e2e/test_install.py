"""The page "Install": every command, in its order, with the output that the page shows.

The shipped inventory and its defaults, a fresh checkout, hosts with systemd and SSH that run a real kubelet
and containerd, a static kube-scheduler, images from a registry. Only the name of the registry is replaced, as
the page tells users to do. Not real: the GPUs and the packages of their driver
(``tests.support.fixtures.site``), and the first steps of Pulumi's language host
(``tests.support.fakes.language_host``).
"""

import json
import shlex
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from gpushare.contract import EXTENDER_NAME, LABEL_GPUSHARE
from release import REGISTRY
from testbed.pulumi import old_tokens
from testbed.pulumi.programs import link
from tests.support.fixtures import playbooks, site
from tests.support.fixtures.checkouts import NOT_THE_USERS, ROOT, check_out, user_of_pulumi
from tests.support.fixtures.kube_hosts import KubeHosts, User, kube_hosts
from tests.support.fixtures.static_scheduler import MANIFEST, original
from tests.support.pages import Command, Written, steps, unmet

pytestmark = [
    pytest.mark.needs("hosts", "kubelet", "playbooks", "images", "registry", "compiler"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(1800),
]

STEPS = [
    step
    for step in steps((ROOT / "docs/how-to/install.md").read_text())
    if isinstance(step, Command) or step.path
]
EXAMPLE = ROOT / "inventories/example/group_vars/all"
COMMAND_S = 1500.0


def named(step: Command | Written) -> str:
    return step.line if isinstance(step, Command) else f"write {step.path}"


@dataclass
class Controller:
    """A user's shell in a fresh checkout. ``failed`` is the first step that did not work."""

    cluster: KubeHosts
    checkout: Path
    env: Mapping[str, str]
    failed: str = field(default="", init=False)

    async def run(self, line: str) -> playbooks.Run:
        """Run one line in the shell; it keeps its variables for the next ones."""
        state = shlex.quote(str(self.cluster.folder / "variables"))
        script = f"""\
cd {shlex.quote(str(self.checkout))}
[ ! -e {state} ] || . {state}
{line}
code=$?
export -p >{state}
exit $code
"""
        unset = [f"--unset={name}" for name in NOT_THE_USERS]
        env = [f"{key}={value}" for key, value in self.env.items()]
        return await playbooks.run(["/usr/bin/env", *unset, *env, "bash", "-c", script], COMMAND_S)


def user() -> User:
    """The user of the shipped inventory, whom every host must have."""
    login = yaml.safe_load((EXAMPLE / "main.yml").read_text())
    secret = yaml.safe_load((EXAMPLE / "main.vault.yml").read_text())
    return User(login["ansible_user"], secret["vault_become_password"])


def cuda_image() -> str:
    (text,) = [step.text for step in STEPS if isinstance(step, Written) and step.path == "pod.yaml"]
    image: str = yaml.safe_load(text)["spec"]["containers"][0]["image"]
    return image


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def controller(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Controller]:
    folder = tmp_path_factory.mktemp("site")
    async with kube_hosts(folder, user(), cuda_image()) as cluster:
        await old_tokens(cluster.bed)
        env = await user_of_pulumi(cluster.bed)
        programs = Path(env["PATH"].partition(":")[0])
        link(programs, {"kubectl": cluster.bed.components.tools["kubectl"].path})
        checkout = await check_out(folder / "checkout")
        own_key = checkout / "inventories/example/group_vars/gpu_nodes/stubs.yml"
        own_key.write_text(json.dumps(await site.keys()))
        # Images have the last commit of their sources as a label.
        (checkout / ".git").symlink_to(ROOT / ".git")
        more = {
            "ANSIBLE_SSH_COMMON_ARGS": f"-F {cluster.lab.ssh_config}",
            "GIT_OPTIONAL_LOCKS": "0",
            "SSL_CERT_DIR": f"{folder}:/etc/ssl/certs",
        }
        yield Controller(cluster, checkout, {**env, **more})


def as_the_user_writes(text: str) -> str:
    return text.replace(REGISTRY, f"{site.REGISTRY}/gpushare")


@pytest.mark.parametrize("step", STEPS, ids=named)
async def test_each_step_works_as_the_page_shows(controller: Controller, step: Command | Written) -> None:
    if controller.failed:
        pytest.skip(f"an earlier step failed: {controller.failed}")
    controller.failed = named(step)
    if isinstance(step, Written):
        (controller.checkout / step.path).write_text(as_the_user_writes(step.text))
    else:
        done = await controller.run(as_the_user_writes(step.line))
        assert done.code == 0, done.output
        missing = unmet([as_the_user_writes(line) for line in step.expected], done.output)
        assert not missing, f"{missing!r} is not where the page has it:\n{done.output}"
    controller.failed = ""


async def test_afterwards_the_schedulers_and_nodes_are_as_before(controller: Controller) -> None:
    if controller.failed:
        pytest.skip(f"a step failed: {controller.failed}")
    manifest = await controller.cluster.lab.ssh("cp-1", f"cat {MANIFEST}")
    assert manifest == original("1.36")
    nodes = await controller.cluster.bed.api.items("/api/v1/nodes")
    assert {node["metadata"]["labels"].get(LABEL_GPUSHARE) for node in nodes} <= {None, "false"}
    assert not [node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")]


async def test_afterwards_no_service_is_left(controller: Controller) -> None:
    if controller.failed:
        pytest.skip(f"a step failed: {controller.failed}")
    kinds = "deployments,daemonsets,jobs,cronjobs,services,serviceaccounts,secrets"
    text = await controller.cluster.bed.kubectl("-n", "kube-system", "get", kinds, "-o", "name")
    assert not [name for name in text.split() if "gpushare" in name or "cgpu" in name]
    assert EXTENDER_NAME not in text
