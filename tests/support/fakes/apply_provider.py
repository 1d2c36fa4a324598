# ruff: noqa: ARG002, N802 - methods and arguments are the protocol's
"""A STAND-IN for Pulumi's Kubernetes provider 4.x: its server-side apply, and how it waits for DaemonSets.

Why: the newest official provider that can be built from the Go module proxy is of 2020. It applies on
the client's side, does not see fields that other managers changed, and cannot take objects over. This
stand-in does what the documentation of today's provider says: objects are created, or with
``upsertExistingObjects`` taken over, updated by server-side apply, by force with ``enablePatchForce``; a
refresh reads the fields that the program set; a deletion waits for its end. The field manager is that of the
annotation ``pulumi.com/patchFieldManager``, else that of the state, else a random one for each resource.
Like 4.12 and later, it waits until a DaemonSet is rolled out, whatever its update strategy, for the
timeout of the resource or 10 minutes, unless ``pulumi.com/skipAwait`` says not to; a DaemonSet with that
annotation is also deleted without a wait. Its pods are deleted first, unless ``deletionPropagationPolicy``
says otherwise. It waits for no other pods, makes no names and replaces nothing.

Source: pulumi/pulumi-kubernetes 94977969 of 2026-07-01, ``provider.go: fieldManagerName``,
``await/daemonset.go``, ``metadata/overrides.go: DeletionPropagation, allowsSkipAwaitWithDelete``. Unlike it,
this one also creates by apply what must not exist yet, where the real one sends a POST as manager
``pulumi-kubernetes``.

Protocol: ``pulumirpc.ResourceProvider`` of the SDK; the program prints its port and serves until it is
killed. A resource's inputs are the object; its outputs are what the API server has of it.
"""

import secrets
import sys
import time
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2, struct_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from kubernetes import config, dynamic
from kubernetes.client import ApiException
from kubernetes.dynamic.exceptions import NotFoundError
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from tests.support.fields import differences, seen_through

MANAGER_KEY = "__fieldManager"
"""Where the state of a resource has its field manager."""
_MANAGER = "pulumi.com/patchFieldManager"
_DELETE_S = 60.0
_POLL_S = 0.1
_ROLLOUT_S = 600.0
_SKIP_AWAIT = "pulumi.com/skipAwait"
_PROPAGATION = "pulumi.com/deletionPropagationPolicy"

Object = dict[str, Any]


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """The calls of the engine; the protocol determines the names of the methods."""

    def __init__(self) -> None:
        self._client: Any = None
        self._force = False
        self._upsert = False

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version="4.34.2")

    def CheckConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:
        return _changes(_plain(request.old_inputs), _plain(request.news))

    def Configure(self, request: Any, context: Any) -> Any:
        variables = {key.rpartition(":")[2]: value for key, value in request.variables.items()}
        client = config.new_client_from_config(variables.get("kubeconfig"), variables.get("context"))
        self._client = dynamic.DynamicClient(client)
        self._force = variables.get("enablePatchForce") == "true"
        self._upsert = variables.get("upsertExistingObjects") == "true"
        return provider_pb2.ConfigureResponse()

    def Check(self, request: Any, context: Any) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def Diff(self, request: Any, context: Any) -> Any:
        return _changes(_plain(request.old_inputs), _plain(request.news))

    def Create(self, request: Any, context: Any) -> Any:
        wanted = _plain(request.properties)
        patch = request.urn.rpartition("::")[0].endswith("Patch")
        if not patch and not self._upsert and self._live(wanted) is not None:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, f"{_id(wanted)} already exists")
        applied = self._apply(wanted, _manager(wanted, {}), request.timeout, context)
        return provider_pb2.CreateResponse(id=_id(wanted), properties=applied)

    def Update(self, request: Any, context: Any) -> Any:
        wanted = _plain(request.news)
        applied = self._apply(wanted, _manager(wanted, _plain(request.olds)), request.timeout, context)
        return provider_pb2.UpdateResponse(properties=applied)

    def Read(self, request: Any, context: Any) -> Any:
        shape = _plain(request.inputs)
        live = self._live(shape)
        if live is None:
            return provider_pb2.ReadResponse()
        inputs = _struct(seen_through(live, shape))
        state = live | {MANAGER_KEY: _manager(shape, _plain(request.properties))}
        return provider_pb2.ReadResponse(id=request.id, properties=_struct(state), inputs=inputs)

    def Delete(self, request: Any, context: Any) -> Any:
        target = _plain(request.properties)
        kind, place = self._kind(target), _place(target)
        deadline = time.monotonic() + _DELETE_S
        while time.monotonic() < deadline:
            try:
                kind.delete(**place, body={"propagationPolicy": _propagation(target)})
            except NotFoundError:
                return empty_pb2.Empty()
            if target["kind"] == "DaemonSet" and not _is_awaited(target):
                return empty_pb2.Empty()
            time.sleep(_POLL_S)
        context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"{_id(target)} is still there")
        return None

    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    def _apply(self, wanted: Object, manager: str, timeout_s: float, context: Any) -> Any:
        try:
            answer = self._client.server_side_apply(
                self._kind(wanted), wanted, field_manager=manager, force_conflicts=self._force
            )
        except ApiException as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{_id(wanted)}: {error.body}")
        if _is_awaited(wanted):
            self._wait_for_rollout(wanted, timeout_s or _ROLLOUT_S, context)
        return _struct(_stored(answer) | {MANAGER_KEY: manager})

    def _wait_for_rollout(self, wanted: Object, timeout_s: float, context: Any) -> None:
        deadline = time.monotonic() + timeout_s
        while not _is_rolled_out(self._live(wanted) or {}):
            if time.monotonic() > deadline:
                reason = f"{_id(wanted)}: the rollout has not ended after {timeout_s:.0f} s"
                context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, reason)
            time.sleep(_POLL_S)

    def _live(self, wanted: Object) -> Object | None:
        try:
            return _stored(self._kind(wanted).get(**_place(wanted)))
        except NotFoundError:
            return None

    def _kind(self, wanted: Object) -> Any:
        return self._client.resources.get(api_version=wanted["apiVersion"], kind=wanted["kind"])


def _manager(wanted: Object, state: Object) -> str:
    """The field manager of a resource."""
    annotations = wanted["metadata"].get("annotations", {})
    known: str | None = annotations.get(_MANAGER) or state.get(MANAGER_KEY)
    return known or f"pulumi-kubernetes-{secrets.token_hex(4)}"


def _propagation(target: Object) -> str:
    policy: str = target["metadata"].get("annotations", {}).get(_PROPAGATION, "foreground")
    return policy.capitalize()


def _is_awaited(wanted: Object) -> bool:
    skips = wanted["metadata"].get("annotations", {}).get(_SKIP_AWAIT) == "true"
    return wanted["kind"] == "DaemonSet" and not skips


def _is_rolled_out(live: Object) -> bool:
    """Whether all pods of a DaemonSet have its current template and are available."""
    status = live.get("status", {})
    if status.get("observedGeneration", 0) < live.get("metadata", {}).get("generation", 1):
        return False
    nodes = status.get("desiredNumberScheduled", 0)
    return bool(status.get("updatedNumberScheduled", 0) >= nodes <= status.get("numberAvailable", 0))


def _changes(old: Object, new: Object) -> Any:
    paths = differences(old, new)
    update = provider_pb2.PropertyDiff(kind=provider_pb2.PropertyDiff.UPDATE, inputDiff=True)
    answer = provider_pb2.DiffResponse
    return answer(
        changes=answer.DIFF_SOME if paths else answer.DIFF_NONE,
        diffs=sorted({path.partition(".")[0].partition("[")[0] for path in paths}),
        detailedDiff=dict.fromkeys(paths, update),
        hasDetailedDiff=True,
    )


def _stored(answer: Any) -> Object:
    found: Object = answer.to_dict()
    found["metadata"].pop("managedFields", None)
    return found


def _place(wanted: Object) -> dict[str, str | None]:
    return {"name": wanted["metadata"]["name"], "namespace": wanted["metadata"].get("namespace")}


def _id(wanted: Object) -> str:
    return "/".join(filter(None, reversed(_place(wanted).values())))


def _plain(struct: Any) -> Object:
    """A protobuf Struct, whose numbers are all floats, as a plain object."""
    plain: Object = _whole(MessageToDict(struct))
    return plain


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _struct(plain: Object) -> Any:
    return ParseDict(plain, struct_pb2.Struct())


def program(folder: Path) -> Path:
    """Write the program that the engine starts; it runs this module."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "apply-provider"
    root = Path(__file__).parents[3]
    file.write_text(f'#!/bin/sh\nPYTHONPATH={root} exec {sys.executable} -m {__name__} "$@"\n')
    file.chmod(0o755)
    return file


def serve(show: Callable[[str], object]) -> None:
    """Serve until killed; prints the port first, because the engine waits for it."""
    server = grpc.server(futures.ThreadPoolExecutor(16))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Provider(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    show(f"{port}\n")
    sys.stdout.flush()
    server.wait_for_termination()


if __name__ == "__main__":
    serve(sys.stdout.write)
