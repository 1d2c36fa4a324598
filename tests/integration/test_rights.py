"""Every service runs with exactly the rights that the stack grants, and reports each one that is missing.

Real API server with RBAC, real kubelet with webhook authorization; services are processes, the driver is a
stub of NVML. The cases come from the rendered rules, so a right that nothing needs fails its case.
"""

import json
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
import pytest_asyncio
import yaml
from aiohttp import web

from components.config import Installer
from components.config_extender import Exposure, Extender
from components.config_monitoring import MetricsApi
from components.manifests import certificates, installer, metrics_api, viewers
from components.manifests.parts import Object, account, cluster_rights, role, role_binding
from components.render import as_yaml
from devkit.process import Process
from gpushare import contract
from gpushare.adapters.kubelet.pods import CLUSTER_CA
from gpushare.board.routes import TENANTS
from gpushare.errors import ApiError
from gpushare.kubescheduler.config import KubernetesVersion
from gpushare.model.hardware import RecoveryAction
from testbed import Bed, DevkitError, SchedulerSpec, SimGpu, SimNode, Testbed, gpu_pod, until
from testbed.control_plane import audit
from testbed.daemons import console_script, rights
from testbed.daemons.agent import CardNode, add_card_node, start_agent
from testbed.daemons.exporter import start_exporter
from testbed.daemons.extender import ACCOUNT as EXTENDER
from testbed.daemons.extender import LEASES, ExtenderSpec, create_released_lease
from testbed.daemons.metricsapi import start_metrics_api
from testbed.kubelets import KubeletSpec
from testbed.nvml import card
from tests.support.fixtures.boards import BoardServer, start_board_server
from tests.support.fixtures.extenders import QUICK, request_bind
from tests.support.fixtures.gpu_nodes import SHARING, container, pod, running
from tests.support.fixtures.scraped_series import serving

pytestmark = [pytest.mark.needs("kubelet"), pytest.mark.asyncio(loop_scope="module")]

STATIC_PODS = "/etc/kubernetes/manifests"
LEASE = f"{LEASES}/{contract.EXTENDER_NAME}"
SYSTEM = "/api/v1/namespaces/kube-system"
SECRET = f"{SYSTEM}/secrets/{contract.SEAL_SECRET}"
UNHEALTHY = f"{SYSTEM}/configmaps/{contract.UNHEALTHY_PREFIX}gpu"
METRIC = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/pods/*/DCGM_CUSTOM_PROCESS_SM_UTIL"
FITS = "/apis/usage.gpushare.io/v1/namespaces/default/gpufits?units=1"
WORKLOADS = ("CronJob", "DaemonSet", "Deployment", "Job")
_EVERY = 5
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    # Not ResponseStarted: a watch completes after minutes.
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts:kube-system"]},
        # Whether the agent may read the pods of the kubelet is the kubelet's question.
        {"level": "Request", "resources": [{"group": "authorization.k8s.io"}]},
        {"level": "None"},
    ],
}


class Right(NamedTuple):
    """One verb on one resource; a ``role`` is limited to kube-system."""

    role: str
    group: str
    resource: str
    verb: str


@dataclass(frozen=True)
class Rules:
    """The rules of one account, each reduced to one resource and one verb."""

    account: str
    objects: tuple[Object, ...]

    @property
    def each(self) -> Iterator[tuple[Right, Object]]:
        # A role that is bound to nobody is for users.
        bound = {each["roleRef"]["name"] for each in self.objects if "roleRef" in each}
        for found in self.objects:
            if found["metadata"]["name"] not in bound:
                continue
            for rule in found.get("rules", ()):
                for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"]):
                    single = {**rule, "apiGroups": [group], "resources": [resource], "verbs": [verb]}
                    yield Right(found["kind"], group, resource, verb), single

    def without(self, right: Right, name: str) -> str:
        """The account ``name`` with all rights but one, as YAML."""
        kept = [(each.role, rule) for each, rule in self.each if each != right]
        of_cluster = [rule for kind, rule in kept if kind == "ClusterRole"]
        of_system = [rule for kind, rule in kept if kind == "Role"]
        return as_yaml(
            [
                account(name),
                *cluster_rights(name, of_cluster),
                role(name, of_system),
                role_binding(name, name, name),
                *(each for each in self._bindings(name)),
            ]
        )

    def _bindings(self, name: str) -> Iterator[Object]:
        """Those to roles of Kubernetes."""
        for each in self.objects:
            if each["kind"] == "RoleBinding" and each["roleRef"]["name"] != self.account:
                yield role_binding(f"{name}-{each['roleRef']['name']}", each["roleRef"]["name"], name)


def parsed(name: str, text: str) -> Rules:
    return Rules(name, tuple(yaml.safe_load_all(text)))


VERSION = KubernetesVersion(1, 36)
STACK = Extender(exposure=Exposure.NODE_PORT, certificates_image="none")
RULES = {
    "extender": parsed(contract.EXTENDER_NAME, rights.of_extender()),
    "agent": parsed(contract.AGENT_NAME, rights.of_agent()),
    "exporter": parsed(contract.EXPORTER_NAME, rights.of_exporter()),
    "metrics-api": parsed(contract.METRICS_API_NAME, rights.of_metrics_api()),
    "board": parsed(contract.BOARD_NAME, rights.of_board()),
    "installer": Rules(contract.INSTALLER_NAME, tuple(installer.objects(Installer(), STACK, VERSION))),
    "certificates": Rules(contract.CERTIFICATES_NAME, tuple(certificates.objects(STACK, VERSION))),
    "metrics-certificates": Rules(
        contract.METRICS_CERTIFICATES_NAME, tuple(metrics_api.certificate_rights(MetricsApi()))
    ),
}
JOBS = {
    "certificates": (contract.AUTHORITY_SECRET, []),
    "metrics-certificates": (
        contract.METRICS_AUTHORITY_SECRET,
        [f"--api-service=v1.{contract.USAGE_API_GROUP}"],
    ),
}
"""The Jobs of the certificates: the first Secret that they write, and their flags."""
CASES = [(service, right) for service, rules in RULES.items() for right, _ in rules.each]


@dataclass
class Scene:
    """A bed with one real and one simulated node, and the services, all with their own accounts."""

    bed: Bed
    node: CardNode
    services: dict[str, Process] = field(default_factory=dict)
    extender: ExtenderSpec = field(default_factory=lambda: ExtenderSpec(flags=QUICK))
    metrics_url: str = ""
    board: BoardServer | None = None
    viewer: str = ""
    made: int = 0

    def number(self) -> int:
        self.made += 1
        return self.made

    async def token(self, account: str) -> None:
        """Mount the token of a service account and the CA into the node, as the kubelet does for a pod."""
        path = f"{SYSTEM}/serviceaccounts/{account}/token"
        token = (await self.bed.api.create(path, {"spec": {}}))["status"]["token"]
        folder = self.node.kubelet.path(str(CLUSTER_CA.parent))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CLUSTER_CA.name).write_text(self.bed.ca_file.read_text())
        (folder / "token").write_text(token)

    async def run_with(self, service: str, account: str) -> Process:
        """Run the service again with another account, and without waiting until it is ready."""
        process = self.services[service]
        await process.stop()
        access = f"--kubeconfig={self.bed.kubeconfig_for(f'system:serviceaccount:kube-system:{account}')}"
        argv = [access if each.startswith("--kubeconfig=") else each for each in process.command.argv]
        return await self.bed.run(replace(process.command, argv=argv, ready=None))

    async def bind(self, node: str) -> str:
        """Bind a new pod through the extender; return the error."""
        (made,) = await self.bed.create_pods([gpu_pod(f"bound-{self.number()}", 1)])
        return await self._request_bind(made, node)

    async def bind_unknown(self) -> str:
        """Bind a pod that does not exist, which the extender reads from the API server; return the error."""
        return await self._request_bind({"metadata": {"name": "unknown", "uid": "unknown"}}, "n")

    async def _request_bind(self, made: Object, node: str) -> str:
        try:
            return await request_bind(self.extender, made, node)
        except aiohttp.ClientError as error:
            return str(error)

    async def install(self, account: str) -> Process:
        """Run the installer as in its Job, on a node whose kube-scheduler is no static pod."""
        await self.token(account)
        url = self.bed.api_url.removeprefix("https://")
        host, _, port = url.rpartition(":")
        env = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "POD_NAME": "installer"}
        argv = [console_script("gpushare"), "scheduler-manifest", "install", "--root=/nowhere"]
        return await self.node.kubelet.spawn(
            f"installer-{self.number()}", [*argv, "--control-planes=1", "--address=127.0.0.1"], env=env
        )

    async def certify(self, service: str, account: str) -> Process:
        """Run a Job of certificates as a process."""
        access = self.bed.kubeconfig_for(f"system:serviceaccount:kube-system:{account}")
        argv = [console_script("gpushare"), "certificates", f"--kubeconfig={access}", "--renew"]
        return await self.bed.spawn(f"certificates-{self.number()}", [*argv, *JOBS[service][1]])

    async def metric(self, path: str = METRIC) -> str:
        """A request to the metrics API, as the API server forwards it; returns the answer."""
        tls, pki = ssl.create_default_context(cafile=str(self.bed.ca_file)), self.bed.layout.pki
        tls.load_cert_chain(pki / "front-proxy-client.crt", pki / "front-proxy-client.key")
        headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{self.metrics_url}{path}", headers=headers, ssl=tls) as answer,
            ):
                return await answer.text()
        except aiohttp.ClientError as error:
            return str(error)

    async def shown(self, path: str = "/data") -> str:
        """What the board answers to a user who may see it, with the reasons of what it cannot read."""
        assert self.board
        try:
            _, body = await self.board.get(path, self.viewer)
        except aiohttp.ClientError as error:
            return str(error)
        return body.decode()

    async def starting(self) -> None:
        """Give the node a startup taint, which the agent removes."""
        taint = f"{contract.STARTUP_TAINTS[0]}=:NoSchedule"
        await self.bed.kubectl("taint", "--overwrite", "node", "gpu", taint)

    def static_pod(self) -> None:
        """Add a static pod with GPU memory, which the API server does not show before it starts."""
        name = f"static-{self.number()}"
        file = self.node.kubelet.path(f"{STATIC_PODS}/{name}.json")
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **pod(name, container(1))}))


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "log"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed(audit_log: Path) -> AsyncIterator[Bed]:
    policy = audit_log.with_name("policy.json")
    policy.write_text(json.dumps(AUDIT))
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}", "--audit-log-maxsize=0"]
    async with Testbed(scheduler=SchedulerSpec(None), api_flags=flags) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prometheus() -> AsyncIterator[str]:
    """One without series."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": []}})

    app = web.Application()
    app.router.add_post("/api/v1/query", answer)
    async with serving(app) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(bed: Bed, prometheus: str) -> AsyncIterator[Scene]:
    """All services at work with the rendered rights."""
    spec = KubeletSpec(
        "gpu",
        labels=SHARING,
        files={f"{STATIC_PODS}/.folder": ""},
        config={"staticPodPath": STATIC_PODS, "fileCheckFrequency": "1s"},
    )
    await bed.until_service_account("kube-system")
    await bed.add_nodes([SimNode("n", [SimGpu(units=1000)])])
    found = Scene(bed, await add_card_node(bed, spec, 2 * [card("T4")]))
    for rules in RULES.values():
        kept = [each for each in rules.objects if each["kind"] not in WORKLOADS]
        await bed.apply(as_yaml(kept))
    services = found.services
    await found.token(contract.AGENT_NAME)
    flags = ["--recovery-seconds=1", "--query-kubelet", "--cgroup-root=/nowhere"]
    agent = await start_agent(found.node, flags)
    services["agent"] = agent.agent
    services["exporter"] = (await start_exporter(found.node)).process
    metrics_api = await start_metrics_api(bed)
    services["metrics-api"], found.metrics_url = metrics_api.process, metrics_api.url
    found.board = await start_board_server(bed, f"--prometheus-url={prometheus}")
    services["board"] = found.board.process
    await bed.apply(as_yaml(viewers.objects(["system:serviceaccounts:default"])))
    await bed.until_service_account("default")
    found.viewer = (await bed.kubectl("create", "token", "default")).strip()
    services["extender"] = await bed.spawn(
        found.extender.name,
        found.extender.argv(bed.kubeconfig_for(EXTENDER)),
        ready=f"{found.extender.ops_url}/readyz",
    )
    await add_installer_pod(bed)
    yield found


async def add_installer_pod(bed: Bed) -> None:
    """The pod of the Job, which is not run as a container here."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    jobs = "/apis/batch/v1/namespaces/kube-system/jobs"
    job = await bed.api.create(
        jobs, {"metadata": {"name": "installer"}, "spec": {"parallelism": 0, "template": template}}
    )
    # Without `controller`, so that the Job does not end a pod that it has not created.
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "installer", "uid": job["metadata"]["uid"]}
    made = pod("installer", container(0, resources={}), nodeName="n")
    marks = {"component": contract.INSTALLER_NAME}
    made["metadata"] |= {"namespace": "kube-system", "labels": marks, "ownerReferences": [owner]}
    await bed.create_pods([made])


async def deleted(bed: Bed, path: str) -> None:
    with suppress(ApiError):
        await bed.api.delete(path)


async def binds(scene: Scene) -> bool:
    return not await scene.bind("gpu")


async def unhealthy(scene: Scene) -> bool:
    """Whether the agent has written a faulty GPU to its ConfigMap."""
    scene.node.stub.require(0, RecoveryAction.GPU_RESET)
    with suppress(ApiError):
        config_map = await scene.bed.api.get(UNHEALTHY)
        return bool(config_map["data"][contract.UNHEALTHY_KEY])
    return False


def used(path: Path) -> Mapping[str, set[tuple[str, str, str]]]:
    """Group, resource and verb of the requests of each account, and of the reviews about it."""
    found: dict[str, set[tuple[str, str, str]]] = {rules.account: set() for rules in RULES.values()}
    for event in audit.read(path):
        where = event.get("objectRef", {})
        name = event["user"]["username"].rpartition(":")[2]
        resource = "/".join(filter(None, (where.get("resource"), where.get("subresource"))))
        if name in found and resource:
            found[name] |= {(where.get("apiGroup", ""), resource, verb) for verb in verbs_of(event)}
        asked = event.get("requestObject", {}).get("spec", {})
        what = asked.get("resourceAttributes", {})
        name = asked.get("user", "").rpartition(":")[2]
        if name in found and what.get("resource") == "nodes":
            found[name].add(("", f"nodes/{what.get('subresource')}", what["verb"]))
    return found


def verbs_of(event: Mapping[str, Any]) -> set[str]:
    """A server-side apply that has created its object needed the right to that too."""
    created = event.get("responseStatus", {}).get("code") == HTTPStatus.CREATED
    return {event["verb"], *(["create"] if created else [])}


def denied(path: Path) -> list[str]:
    """Requests of the accounts that were denied."""
    return [
        f"{event['user']['username']}: {event['verb']} {event['requestURI']}"
        for event in audit.read(path)
        if event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
    ]


async def test_with_exactly_the_rendered_rights_all_services_work_and_use_each_of_them(
    scene: Scene, audit_log: Path
) -> None:
    bed = scene.bed
    await until(lambda: binds(scene), "a pod to be bound", 60, 0.5)
    assert await scene.bind_unknown()
    await until(lambda: unhealthy(scene), "the faulty GPU", 30, 0.5)
    scene.node.stub.reset(0)
    scene.static_pod()
    await running(bed, f"static-{scene.made}-gpu", 60)
    await scene.starting()
    await scene.metric()
    await scene.metric(FITS)
    await scene.shown()
    await scene.shown(TENANTS)
    assert await (await scene.install(contract.INSTALLER_NAME)).wait(60) != 0
    for job in JOBS:
        assert await (await scene.certify(job, RULES[job].account)).wait(60) == 0
    granted = {
        rules.account: {(right.group, right.resource, right.verb) for right, _ in rules.each}
        for rules in RULES.values()
    }
    # By a Role of Kubernetes.
    granted[contract.METRICS_API_NAME] |= {("", "configmaps", verb) for verb in ("list", "watch")}

    async def all_used() -> bool:
        return used(audit_log) == granted

    with suppress(DevkitError):
        await until(all_used, "all rights to be used", 30, 0.5)
    assert used(audit_log) == granted
    assert denied(audit_log) == []


def expected(right: Right) -> str:
    """What names the missing right: the text of the API server, or of the kubelet."""
    if right.resource == "nodes/pods":
        return "verb=get, resource=nodes"
    return f'cannot {right.verb} resource "{right.resource}"'


async def prepare(scene: Scene, service: str, right: Right, name: str) -> None:
    """Undo what would make the right needless, such as a Lease that exists already."""
    bed = scene.bed
    if service == "extender":
        await deleted(bed, LEASE)
        if right.verb != "create":
            await create_released_lease(bed, contract.EXTENDER_NAME)
        await deleted(bed, SECRET)
        if (right.resource, right.verb) != ("secrets", "create"):
            await bed.api.create(SECRET.rpartition("/")[0], {"metadata": {"name": contract.SEAL_SECRET}})
    if service in JOBS and right.verb == "create":
        await deleted(bed, f"{SYSTEM}/secrets/{JOBS[service][0]}")
    if service == "agent":
        await deleted(bed, UNHEALTHY)
        await scene.token(name)


async def act(scene: Scene, service: str, resource: str, turn: int) -> str:
    """Let the service use its rights; return its answer. A pod that comes too early fails."""
    if service == "extender":
        return await (scene.bind_unknown() if resource == "pods" else scene.bind("n"))
    if resource == "nodes/pods" and turn % _EVERY == 0:
        scene.static_pod()
    elif resource == "pods/status" and turn % _EVERY == 0:
        await scene.bed.create_pods([pod(f"placed-{scene.number()}", container(1), nodeName="gpu")])
    elif resource == "nodes" and turn % _EVERY == 0:
        await scene.starting()
    elif service == "agent":
        # Each turn is a change, which the agent writes.
        scene.node.stub.require(0, turn % 2)
    elif service == "board":
        return await scene.shown(TENANTS if resource == "resourcequotas" else "/data")
    elif service == "metrics-api":
        return await scene.metric(FITS if resource == "configmaps" else METRIC)
    return ""


@pytest.mark.parametrize(
    ("service", "right"), CASES, ids=[f"{s}-{r.verb}-{r.resource.replace('/', '.')}" for s, r in CASES]
)
async def test_a_missing_right_is_reported_by_its_name(scene: Scene, service: str, right: Right) -> None:
    name = f"case-{scene.number()}"
    await scene.bed.apply(RULES[service].without(right, name))
    answers: list[str] = []
    start = 0
    if service == "installer":
        process = await scene.install(name)
    elif service in JOBS:
        await prepare(scene, service, right, name)
        process = await scene.certify(service, name)
    else:
        await scene.services[service].stop()
        await prepare(scene, service, right, name)
        start = log_size(scene.services[service])
        process = await scene.run_with(service, name)

    async def reported() -> bool:
        answers.append(await act(scene, service, right.resource, len(answers)))
        text = process.command.log.read_text()[start:] + "\n".join(answers)
        return expected(right) in text.replace('\\"', '"')

    try:
        await until(reported, f"{service} to report: {expected(right)}", 30, 0.5)
    finally:
        await process.stop()


def log_size(process: Process) -> int:
    return len(process.command.log.read_text())
