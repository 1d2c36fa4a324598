"""The component provider as Pulumi runs it: a separate process that serves gRPC."""

import json
import subprocess
import sys
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

from components.config import ClusterSettings
from components.manifests import everything
from components.stack import checked_settings
from tests.builders.stacks import DIGEST, ROOT, raw_stack

COMPONENT = "gpushare:index:GpuShare"
DEADLINE_S = 30


class Engine(resource_pb2_grpc.ResourceMonitorServicer, engine_pb2_grpc.EngineServicer):
    """Stands in for the engine: takes every resource and remembers it."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []

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
        "gpushare:index:Scheduler": ["image"],
        "gpushare:index:Webhook": ["tlsSecret"],
        "gpushare:index:DevicePlugin": [],
        "gpushare:index:NodePool": ["nodes"],
        "gpushare:index:Installer": [],
        "gpushare:index:Isolation": [],
        "gpushare:index:Mps": [],
        "gpushare:index:Monitoring": [],
        "gpushare:index:Exporter": [],
        "gpushare:index:MetricsApi": ["tlsSecret"],
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
    assert keyed(made) == keyed(rendered)


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
