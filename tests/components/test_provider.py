"""The component provider as Pulumi runs it: a separate process that serves gRPC."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf import json_format, struct_pb2
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import (
    engine_pb2_grpc,
    provider_pb2,
    provider_pb2_grpc,
    resource_pb2,
    resource_pb2_grpc,
)

from components.annotations import annotated
from components.config import ClusterSettings
from components.manifests import everything
from components.stack import checked_settings
from tests.support.builders.stacks import DIGEST, ROOT, raw_stack

COMPONENT = "gpushare:index:GpuShare"
DEADLINE_S = 30


class Engine(resource_pb2_grpc.ResourceMonitorServicer, engine_pb2_grpc.EngineServicer):
    """Stands in for the engine: takes every resource and remembers it."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.dependencies: dict[str, set[str]] = {}
        self.retained: set[str] = set()

    def Log(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        del request, context
        return Empty()

    def GetDeploymentInfo(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        """Older engines have none either."""
        del request
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "")

    def SupportsFeature(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        del request, context
        return resource_pb2.SupportsFeatureResponse(hasSupport=False)

    def RegisterResource(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        del context
        self.seen.append((request.type, json_format.MessageToDict(request.object)))
        self.dependencies[request.name] = {
            urn for each in request.propertyDependencies.values() for urn in each.urns
        }
        if request.retainOnDelete:
            self.retained.add(request.name)
        urn = f"urn:pulumi:test::gpushare::{request.type}::{request.name}"
        return resource_pb2.RegisterResourceResponse(urn=urn, object=request.object)

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        del request, context
        return Empty()


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Engine, str]]:
    server = grpc.server(ThreadPoolExecutor(4))
    engine = Engine()
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(engine, server)
    engine_pb2_grpc.add_EngineServicer_to_server(engine, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield engine, f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture(scope="module")
def provider(served: tuple[Engine, str]) -> Iterator[Any]:
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, str(ROOT / "components"), served[1]], stdout=subprocess.PIPE, cwd="/"
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield provider_pb2_grpc.ResourceProviderStub(channel)
    finally:
        process.terminate()
        process.communicate(timeout=DEADLINE_S)


@pytest.fixture(scope="module")
def schema(provider: Any) -> dict[str, Any]:
    answer = provider.GetSchema(provider_pb2.GetSchemaRequest(), timeout=DEADLINE_S)
    parsed: dict[str, Any] = json.loads(answer.schema)
    return parsed


def test_the_package_installs_what_it_imports_as_the_repository_has_it() -> None:
    own = tomllib.loads((ROOT / "components/pyproject.toml").read_text())["project"]["dependencies"]
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())
    tested = {*ours["project"]["dependencies"], *ours["dependency-groups"]["infra"]}
    # The provider is that of the user's program.
    assert set(own) == {each for each in tested if not each.startswith("pulumi-kubernetes")}


def test_the_schema_has_the_whole_stack_and_its_required_inputs(schema: dict[str, Any]) -> None:
    assert list(schema["resources"]) == [COMPONENT]
    resource = schema["resources"][COMPONENT]
    assert resource["requiredInputs"] == ["extender", "kubernetesVersion"]
    assert set(resource["properties"]) == {"names", "images", "extenderUrl"}


def test_fields_with_a_default_are_not_required(schema: dict[str, Any]) -> None:
    required = {
        name: kind.get("required", []) for name, kind in schema["types"].items() if "enum" not in kind
    }
    assert required == {
        "gpushare:index:Extender": [],
        "gpushare:index:Scheduler": [],
        "gpushare:index:Webhook": ["tlsSecret"],
        "gpushare:index:DevicePlugin": [],
        "gpushare:index:NodePool": ["nodes"],
        "gpushare:index:Installer": [],
        "gpushare:index:Isolation": [],
        "gpushare:index:Mps": [],
        "gpushare:index:Monitoring": [],
        "gpushare:index:Exporter": [],
        "gpushare:index:MetricsApi": [],
        "gpushare:index:Board": ["tlsSecret"],
        "gpushare:index:Prometheus": [],
        "gpushare:index:NetworkPolicies": ["controlPlane"],
        "gpushare:index:Tenant": ["gpuMem", "name"],
        "gpushare:index:Toleration": [],
    }


def test_every_field_and_vocabulary_has_its_text(schema: dict[str, Any]) -> None:
    fields = dict(schema["resources"][COMPONENT]["inputProperties"])
    for kind in schema["types"].values():
        assert kind["description"]
        fields |= kind.get("properties", {})
    assert [name for name, field in fields.items() if not field.get("description")] == []


def construct(provider: Any, served: tuple[Engine, str], inputs: dict[str, Any]) -> Any:
    engine, endpoint = served
    engine.seen.clear()
    struct = struct_pb2.Struct()
    json_format.ParseDict(inputs, struct)
    request = provider_pb2.ConstructRequest(
        project="gpushare", stack="test", type=COMPONENT, name="g", inputs=struct, monitorEndpoint=endpoint
    )
    return provider.Construct(request, timeout=DEADLINE_S)


def test_the_provider_registers_the_rendered_objects(provider: Any, served: tuple[Engine, str]) -> None:
    inputs: dict[str, Any] = {
        "kubernetesVersion": "1.36",
        "extender": {
            "image": DIGEST,
            "certificatesImage": DIGEST,
            "replicas": 3,
            "exposure": "cluster-ip",
        },
        "devicePlugins": [{"image": DIGEST, "memoryUnit": "MiB", "nodeSelector": {"cgpu": "true"}}],
        "isolation": {"image": DIGEST},
        "tenants": [{"name": "a", "gpuMem": 32}],
        "registry": "mirror.example.com",
    }
    answer = construct(provider, served, inputs)
    state = json_format.MessageToDict(answer.state)
    assert state["extenderUrl"] == "https://gpushare-schd-extender.kube-system.svc:12345/gpushare-scheduler"
    rendered = everything(checked_settings(inputs, ClusterSettings))
    made = [inputs for kind, inputs in served[0].seen if kind.startswith("kubernetes:")]
    assert len(made) == len(rendered)
    assert keyed(made) == keyed([annotated(each) for each in rendered])


def test_what_outlives_the_component_is_what_the_page_lists(
    provider: Any, served: tuple[Engine, str]
) -> None:
    """With one provider, these objects exist when the component returns."""
    served[0].retained.clear()
    prometheus = {"image": DIGEST, "storage": "1Gi"}
    inputs = raw_stack(
        mps={"image": DIGEST},
        nodePools=[{"nodes": ["a"], "labels": {"gpushare": "true"}}],
        tenants=[{"name": "a", "gpuMem": 1, "priority": 1}],
        monitoring={"exporter": {"image": DIGEST}, "prometheus": prometheus},
    )
    construct(provider, served, inputs)
    assert served[0].retained == {
        "g-mps-daemonset-gpushare-mps",
        "g-nodes-node-a",
        "g-tenant-a-namespace-a",
        "g-tenant-a-priorityclass-a",
        "g-monitoring-persistentvolumeclaim-gpushare-prometheus",
    }


def keyed(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


def test_an_invalid_value_is_one_line_before_anything_is_registered(
    provider: Any, served: tuple[Engine, str]
) -> None:
    inputs = raw_stack(extender={"replicas": 4})
    with pytest.raises(grpc.RpcError) as caught:
        construct(provider, served, inputs)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "extender.replicas: 4 is not allowed; use 1, 2 or 3"
    assert served[0].seen == []


BUILT = f"registry.example.com/extender@sha256:{'a' * 64}"
IMAGE_URN = "urn:pulumi:test::gpushare::docker:index:Image::extender"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def output(**value: Any) -> dict[str, Any]:
    """An output of another resource in the protocol of the engine; without a value it is not known yet."""
    signature = {"4dabf18193072939515e22adb298388d": "d0e6a833031e9bbcd3f4e8bde6ca49a4"}
    return {**signature, "dependencies": [IMAGE_URN], **value}


def inputs_with(image: object, **top: Any) -> dict[str, Any]:
    stack = {
        "kubernetesVersion": "1.36",
        "extender": {"replicas": 3},
        "tenants": [{"name": "a", "gpuMem": 1}],
    }
    return {**stack, "images": {"extender": image, "cli": DIGEST}, **top}


def made_by(served: tuple[Engine, str]) -> dict[tuple[str, str], dict[str, Any]]:
    return keyed([inputs for kind, inputs in served[0].seen if kind.startswith("kubernetes:")])


def test_outputs_of_other_resources_reach_the_objects(provider: Any, served: tuple[Engine, str]) -> None:
    outputs = {
        "tenants": [{"name": output(value="team-a"), "gpuMem": 1}],
        "imagePullSecrets": [output(value="pull")],
        "registry": "mirror.example.com",
    }
    answer = construct(provider, served, inputs_with(output(value=BUILT), **outputs))
    plain = {"tenants": [{"name": "team-a", "gpuMem": 1}], "imagePullSecrets": ["pull"]}
    same = inputs_with(BUILT, registry="mirror.example.com", **plain)
    rendered = keyed([annotated(each) for each in everything(checked_settings(same, ClusterSettings))])
    made = made_by(served)
    # The name of the Job follows from its content before the output is known.
    assert {key: each for key, each in made.items() if key[0] != "Job"} == {
        key: each for key, each in rendered.items() if key[0] != "Job"
    }
    state = json_format.MessageToDict(answer.state)
    extender = "gpushare-schd-extender/gpushare-schd-extender"
    assert state["images"][extender] == f"mirror.example.com/extender@sha256:{'a' * 64}"
    assert "Namespace/team-a" in state["names"]
    assert served[0].dependencies["g-extender-deployment-gpushare-schd-extender"] == {IMAGE_URN}


def test_an_object_is_registered_before_an_output_is_known(provider: Any, served: tuple[Engine, str]) -> None:
    construct(provider, served, inputs_with(output()))
    (deployment,) = [each for (kind, _), each in made_by(served).items() if kind == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == UNKNOWN


def test_an_output_that_builders_need_as_a_value_is_one_line(
    provider: Any, served: tuple[Engine, str]
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        construct(provider, served, inputs_with(BUILT, registry=output(value="a.example.com")))
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details().startswith("registry: is an output of a resource, and its value is needed before")


def test_inputs_that_may_be_outputs_are_not_plain_in_the_schema(schema: dict[str, Any]) -> None:
    inputs = schema["resources"][COMPONENT]["inputProperties"]
    types = schema["types"]
    assert "plain" not in types["gpushare:index:Extender"]["properties"]["image"]
    assert "plain" not in types["gpushare:index:Tenant"]["properties"]["name"]
    assert "plain" not in inputs["images"]["additionalProperties"]
    assert "plain" not in inputs["imagePullSecrets"]["items"]
    assert types["gpushare:index:Extender"]["properties"]["cpu"]["plain"]
    assert types["gpushare:index:DevicePlugin"]["properties"]["name"]["plain"]


def test_the_value_of_an_output_is_checked(provider: Any, served: tuple[Engine, str]) -> None:
    with pytest.raises(grpc.RpcError, match=r"images.extender: 'extender:v1' has no digest"):
        construct(provider, served, inputs_with(output(value="extender:v1")))
    assert "Deployment" not in {kind for kind, _ in made_by(served)}
