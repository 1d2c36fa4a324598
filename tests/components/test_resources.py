import asyncio
import json
import os
import runpy
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pulumi
import pytest
import yaml
from pulumi.runtime import set_all_config, set_mocks
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs, Mocks

from components.annotations import annotated
from components.manifests import everything
from components.resources import GpuShare, _is_part, _needed
from components.stack import from_file, load
from tests.support.builders.stacks import ROOT, STACKS
from tests.support.fakes.prepared_api import CLUSTER, UID, served


class Recorder(Mocks):
    """Stands in for the engine: takes everything and remembers it."""

    def __init__(self) -> None:
        self.seen: list[MockResourceArgs] = []

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        self.seen.append(args)
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args: MockCallArgs) -> Any:
        raise AssertionError(args.token)

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [
            each.inputs
            for each in self.seen
            if each.typ.startswith("kubernetes:") and each.inputs.get("kind")
        ]


@pytest.fixture(autouse=True)
def loops() -> Iterator[None]:
    """Event loops of the test's own for all threads: Pulumi's mocks make them and close none."""
    made: list[asyncio.AbstractEventLoop] = []

    def begin() -> None:
        made.append(asyncio.new_event_loop())
        # Resources of a program that is refused in an output are never awaited.
        made[-1].set_exception_handler(lambda _loop, _context: None)
        asyncio.set_event_loop(made[-1])

    begin()
    with ThreadPoolExecutor(initializer=begin) as threads:
        made[0].set_default_executor(threads)
        yield
    asyncio.set_event_loop(None)
    for loop in made:
        # A program that is refused leaves calls of the engine behind.
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def texts(name: str) -> dict[str, str]:
    """The stack's configuration as the engine hands it to a program."""
    return as_texts(yaml.safe_load(STACKS[name].read_text())["config"])


def as_texts(config: Mapping[str, Any]) -> dict[str, str]:
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}


def run_program(config: dict[str, str], secrets: Sequence[str] = ()) -> Recorder:
    recorder = Recorder()
    with configured(recorder, config, secrets):
        run()
    return recorder


@contextmanager
def configured(recorder: Recorder, config: dict[str, str], secrets: Sequence[str] = ()) -> Iterator[None]:
    """As the language host configures a program; without a cluster unless ``config`` has a kubeconfig."""
    set_mocks(recorder, project="gpushare", stack="test", preview=False)
    set_all_config(config, list(secrets))
    variables = {"PULUMI_CONFIG": json.dumps(config), "KUBECONFIG": "/nonexistent"}
    with patch.dict(os.environ, variables):
        yield


def run() -> None:
    """Run the program as the language host does. Run in any other way, it leaves state to the next test."""
    cast("Callable[[], None]", pulumi.runtime.test(_program))()  # type: ignore[no-untyped-call]


def _program() -> None:
    """What the engine runs; the decorator that waits for it wants nothing returned."""
    runpy.run_path(str(ROOT / "__main__.py"))


def keyed(objects: list[dict[str, Any]]) -> dict[tuple[str, ...], dict[str, Any]]:
    found: dict[tuple[str, ...], dict[str, Any]] = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in objects
    }
    assert len(found) == len(objects)
    return found


@pytest.mark.parametrize("name", STACKS)
def test_pulumi_registers_the_rendered_objects(name: str) -> None:
    rendered = [annotated(each) for each in everything(load(from_file(STACKS[name])))]
    assert keyed(run_program(texts(name)).objects) == keyed(rendered)


def test_every_object_has_the_token_of_the_provider_and_a_unique_name() -> None:
    seen = run_program(texts("everything")).seen
    tokens = {each.typ for each in seen if each.inputs.get("kind")}
    assert tokens == {
        "kubernetes:apiregistration.k8s.io/v1:APIService",
        "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy",
        "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicyBinding",
        "kubernetes:core/v1:ConfigMap",
        "kubernetes:core/v1:NodePatch",
        "kubernetes:apps/v1:DaemonSet",
        "kubernetes:apps/v1:Deployment",
        "kubernetes:core/v1:Namespace",
        "kubernetes:core/v1:PersistentVolumeClaim",
        "kubernetes:core/v1:ResourceQuota",
        "kubernetes:core/v1:Service",
        "kubernetes:core/v1:ServiceAccount",
        "kubernetes:networking.k8s.io/v1:NetworkPolicy",
        "kubernetes:policy/v1:PodDisruptionBudget",
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
        "kubernetes:rbac.authorization.k8s.io/v1:Role",
        "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding",
        "kubernetes:scheduling.k8s.io/v1:PriorityClass",
    }
    names = [each.name for each in seen]
    assert len(names) == len(set(names))


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The requests to register resources, by name."""
    made: dict[str, Any] = {}
    register = MockMonitor.RegisterResource

    def recorded(monitor: MockMonitor, request: Any) -> Any:
        made[request.name] = request
        return register(monitor, request)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(MockMonitor, "RegisterResource", recorded)
    return made


def test_the_installer_waits_for_the_whole_extender(requests: dict[str, Any]) -> None:
    """By its component: the engine registers no child before its parent."""
    run_program(texts("installer"))
    extender = {name for name in requests if name.startswith("gpushare-extender-")}
    assert "gpushare-extender-deployment-gpushare-schd-extender" in extender
    assert extender <= {urn.rpartition("::")[2] for urn in requests["gpushare-installer"].dependencies}


def test_only_shared_objects_use_the_provider_without_force() -> None:
    seen = run_program(texts("everything")).seen
    way = {"kubeconfig": "/etc/gpushare/kubeconfig", "context": "admin"}
    assert provider_of(seen) == {**way, "enablePatchForce": "true", "enableConfigMapMutable": "true"}
    assert provider_of(seen, "shared") == {
        **way,
        "upsertExistingObjects": "true",
        "enableConfigMapMutable": "true",
    }
    used = {
        (each.inputs["kind"], provider_in(str(each.provider))) for each in seen if each.inputs.get("kind")
    }
    careful = {kind for kind, provider in used if provider == "shared"}
    assert careful == {
        "APIService",
        "Namespace",
        "Node",
        "PersistentVolumeClaim",
        "PriorityClass",
        # Only MPS: without its pods all CUDA programs of their nodes would end.
        "DaemonSet",
    }
    always = careful - {"DaemonSet"}
    assert {kind for kind, provider in used if provider == "cluster"} & always == set()


def test_what_outlives_the_stack_may_exist_when_the_stack_returns(requests: dict[str, Any]) -> None:
    run_program(texts("everything"))
    retained = {name for name, each in requests.items() if each.retainOnDelete}
    assert "gpushare-mps-daemonset-gpushare-mps" in retained
    assert {name for name in retained if provider_in(requests[name].provider) != "shared"} == set()


def provider_in(reference: str) -> str:
    """The name in "<urn>::<name>::<id>"."""
    return reference.split("::")[-2]


def provider_of(seen: list[MockResourceArgs], name: str = "cluster") -> dict[str, Any]:
    (provider,) = [each for each in seen if each.typ == "pulumi:providers:kubernetes" and each.name == name]
    return provider.inputs


def test_the_text_of_a_kubeconfig_stays_a_secret() -> None:
    key = "gpushare:kubeconfig"
    seen = run_program(texts("example") | {key: UNREACHABLE}, [key]).seen
    for name in ("cluster", "shared"):
        # On the wire a secret is a mapping of a mark and the value.
        assert provider_of(seen, name)["kubeconfig"]["value"] == UNREACHABLE
    assert "apiVersion: v1" not in str([each.inputs for each in seen if each.typ.startswith("kubernetes:")])


UNREACHABLE = "apiVersion: v1\nkind: Config\n"


def refusal(config: dict[str, str], secrets: Sequence[str] = ()) -> str:
    recorder = Recorder()
    with configured(recorder, config, secrets), pytest.raises(pulumi.RunError) as caught:
        run()
    assert recorder.seen == []
    return str(caught.value)


@contextmanager
def kubeconfig(folder: Path, answers: Mapping[str, Any], contexts: Sequence[str] = ("one",)) -> Iterator[str]:
    """The path of a kubeconfig of an API server with these answers."""
    with served(answers, contexts) as text:
        file = folder / "kubeconfig"
        file.write_text(text)
        yield str(file)


def test_the_text_of_a_kubeconfig_must_be_a_secret() -> None:
    assert refusal(texts("example") | {"gpushare:kubeconfig": UNREACHABLE}) == (
        "kubeconfig: credentials in plain text; set a path, or the text by pulumi config set --secret"
    )


def test_other_secrets_are_errors_because_they_would_be_readable() -> None:
    assert refusal(texts("example") | {"gpushare:registry": "a"}, ["gpushare:registry"]) == (
        "registry: a secret, but its values are readable in the cluster and in the state; set it without "
        "--secret, because only kubeconfig can be one"
    )


def test_the_program_compares_its_settings_with_the_cluster_before_anything_is_registered(
    tmp_path: Path,
) -> None:
    with kubeconfig(tmp_path, {**CLUSTER, "/version": {"major": "1", "minor": "34"}}) as file:
        error = refusal(texts("example") | {"gpushare:kubeconfig": file})
    assert error.startswith("kubernetesVersion: 1.36, but the version of the cluster is 1.34")


SEVERAL = ("north", "west", "south")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "context: not set, and the kubeconfig has several: north, west, south; set the one of "),
        ({"gpushare:context": "east"}, "context: east, but the kubeconfig has north, west, south; "),
        (
            {"gpushare:context": "south", "gpushare:clusterUid": "that-of-west"},
            f"clusterUid: that-of-west, but the UID of kube-system in the cluster is {UID}; ",
        ),
    ],
)
def test_of_several_clusters_only_the_configured_one_is_used(
    tmp_path: Path, changes: dict[str, str], reason: str
) -> None:
    with kubeconfig(tmp_path, CLUSTER, SEVERAL) as file:
        error = refusal(texts("example") | {"gpushare:kubeconfig": file} | changes)
    assert error.startswith(reason)


def test_a_cluster_that_does_not_answer_is_not_the_configured_one(tmp_path: Path) -> None:
    with kubeconfig(tmp_path, {}) as file:
        pass
    error = refusal(texts("example") | {"gpushare:kubeconfig": file, "gpushare:clusterUid": UID})
    assert error.startswith("clusterUid: cannot be compared with the cluster: ")


def test_the_engine_remembers_the_context_and_the_cluster(tmp_path: Path) -> None:
    with kubeconfig(tmp_path, CLUSTER, ["west"]) as file:
        seen = run_program(texts("example") | {"gpushare:kubeconfig": file, "gpushare:clusterUid": UID}).seen
    for name in ("cluster", "shared"):
        provider = provider_of(seen, name)
        assert (provider["context"], provider["clusterIdentifier"]) == ("west", UID)


def test_a_stack_adopts_objects_only_if_it_is_configured() -> None:
    assert "upsertExistingObjects" not in provider_of(run_program(texts("example")).seen)
    given = texts("example")
    plain = json.dumps({**json.loads(given["gpushare:extender"]), "tls": "none"})
    adopting = run_program(given | {"gpushare:adopt": "true", "gpushare:extender": plain}).seen
    assert provider_of(adopting)["upsertExistingObjects"] == "true"


def test_the_stack_exports_its_objects_images_and_the_extender_url() -> None:
    recorder = Recorder()
    set_mocks(recorder, project="gpushare", stack="test", preview=False)
    reported: dict[str, Any] = {}

    def program() -> pulumi.Output[None]:
        made = GpuShare("gpushare", load(from_file(STACKS["everything"])))
        outputs = {"objects": made.names, "images": made.images, "url": made.extender_url}
        return pulumi.Output.all(**outputs).apply(reported.update)

    cast("Callable[[], None]", pulumi.runtime.test(program))()  # type: ignore[no-untyped-call]
    assert "Deployment/gpushare-schd-extender" in reported["objects"]
    assert len(reported["objects"]) == len(recorder.objects)
    assert reported["url"] == "https://gpushare-schd-extender.kube-system.svc:12345/gpushare-scheduler"
    assert reported["images"]["gpushare-schd-extender/gpushare-schd-extender"] == (
        "mirror.example.com/gpushare/extender:v0.1.0"
    )


def test_nodes_keep_their_labels_when_the_stack_is_destroyed() -> None:
    assert _is_part({"kind": "Node"})
    assert not _is_part({"kind": "Namespace"})


def test_the_components_are_one_tree() -> None:
    tokens = {each.typ for each in run_program(texts("everything")).seen if each.typ.startswith("gpushare:")}
    assert tokens == {
        "gpushare:index:AdmissionPolicies",
        "gpushare:index:DevicePlugin",
        "gpushare:index:EvictRecover",
        "gpushare:index:GpuShare",
        "gpushare:index:IsolationInstaller",
        "gpushare:index:MpsDaemons",
        "gpushare:index:Monitoring",
        "gpushare:index:NetworkPolicies",
        "gpushare:index:NodePools",
        "gpushare:index:SchedulerExtender",
        "gpushare:index:Tenant",
    }


def test_an_invalid_configuration_is_an_error_before_anything_is_registered() -> None:
    config = texts("example") | {"gpushare:extender": '{"image": "a", "replicas": 2}'}
    recorder = Recorder()
    with configured(recorder, config), pytest.raises(pulumi.RunError, match=r"^extender.image: 'a' has no"):
        run()
    assert recorder.seen == []


def test_pods_depend_on_their_roles_and_nothing_depends_on_pods() -> None:
    made: Any = [("Namespace", "a"), ("Role", "b"), ("Service", "s"), ("Deployment", "c")]
    assert list(map(str, _needed("DaemonSet", made))) == ["a", "b"]
    assert list(map(str, _needed("Service", made))) == ["a"]


def test_a_further_version_of_an_api_waits_for_the_one_before() -> None:
    made: Any = [("Service", "s"), ("APIService", "v1beta1")]
    assert list(map(str, _needed("APIService", made))) == ["v1beta1"]
    assert _needed("Service", made) == []
