import asyncio
import json
import runpy
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pulumi
import pytest
import yaml
from pulumi.runtime import set_all_config, set_mocks
from pulumi.runtime.mocks import MockCallArgs, MockResourceArgs, Mocks

from components.manifests import everything
from components.resources import _needed
from components.stack import from_file, load
from tests.support.stacks import ROOT, STACKS


class Recorder(Mocks):
    """Stands in for the engine: takes everything and remembers it."""

    def __init__(self) -> None:
        self.seen: list[MockResourceArgs] = []

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        self.seen.append(args)
        return f"{args.name}-id", args.inputs

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
        asyncio.set_event_loop(made[-1])

    begin()
    with ThreadPoolExecutor(initializer=begin) as threads:
        made[0].set_default_executor(threads)
        yield
    asyncio.set_event_loop(None)
    for loop in made:
        loop.close()


def texts(name: str) -> dict[str, str]:
    """The stack's configuration as the engine hands it to a program."""
    config = yaml.safe_load(STACKS[name].read_text())["config"]
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}


def run_program(config: dict[str, str]) -> Recorder:
    recorder = Recorder()
    set_mocks(recorder, project="gpushare", stack="test", preview=False)
    set_all_config(config)

    run = cast("Callable[[], None]", pulumi.runtime.test(_program))  # type: ignore[no-untyped-call]
    run()
    return recorder


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
def test_pulumi_registers_the_very_objects_that_are_rendered(name: str) -> None:
    rendered = everything(load(from_file(STACKS[name])))
    assert keyed(run_program(texts(name)).objects) == keyed(rendered)


def test_every_object_has_the_providers_token_and_a_name_of_its_own() -> None:
    seen = run_program(texts("everything")).seen
    tokens = {each.typ for each in seen if each.inputs.get("kind")}
    assert tokens == {
        "kubernetes:apps/v1:DaemonSet",
        "kubernetes:apps/v1:Deployment",
        "kubernetes:core/v1:Namespace",
        "kubernetes:core/v1:ResourceQuota",
        "kubernetes:core/v1:Service",
        "kubernetes:core/v1:ServiceAccount",
        "kubernetes:policy/v1:PodDisruptionBudget",
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
        "kubernetes:rbac.authorization.k8s.io/v1:Role",
        "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding",
        "kubernetes:scheduling.k8s.io/v1:PriorityClass",
    }
    names = [each.name for each in seen]
    assert len(names) == len(set(names))


def test_every_object_goes_to_the_one_explicit_provider() -> None:
    seen = run_program(texts("everything")).seen
    (provider,) = [each for each in seen if each.typ == "pulumi:providers:kubernetes"]
    assert provider.inputs == {"kubeconfig": "/etc/gpushare/kubeconfig", "context": "admin"}
    used = {str(each.provider) for each in seen if each.inputs.get("kind")}
    assert len(used) == 1
    assert "cluster" in used.pop()


def test_the_components_are_one_tree() -> None:
    tokens = {each.typ for each in run_program(texts("everything")).seen if each.typ.startswith("gpushare:")}
    assert tokens == {
        "gpushare:index:DevicePlugin",
        "gpushare:index:EvictRecover",
        "gpushare:index:GpuShare",
        "gpushare:index:SchedulerExtender",
        "gpushare:index:Tenant",
    }


def test_a_bad_configuration_stops_before_anything_is_registered() -> None:
    config = texts("example") | {"gpushare:extender": '{"image": "a", "replicas": 2}'}
    recorder = Recorder()
    set_mocks(recorder, project="gpushare", stack="test", preview=False)
    set_all_config(config)
    with pytest.raises(pulumi.RunError, match=r"^extender.image: 'a' has no digest"):
        _program()
    assert recorder.seen == []


def test_pods_wait_for_their_rights_and_nothing_waits_for_pods() -> None:
    made: Any = [("Namespace", "a"), ("Role", "b"), ("Deployment", "c")]
    assert list(map(str, _needed("DaemonSet", made))) == ["a", "b"]
    assert list(map(str, _needed("Service", made))) == ["a"]
