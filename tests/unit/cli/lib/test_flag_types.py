"""Values of flags that cannot be right are errors of usage, before anything is asked of a cluster."""

import pytest

from tests.unit.cli.fakes import Api, call, refused

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("name", ["..", "a/b", "Team", "", "é", "a" * 64])
async def test_what_cannot_be_a_namespace_is_no_path_of_the_api(api: Api, name: str) -> None:
    err = await refused(api, "explain", "pod", "-n", name, code=2)
    assert f"{name!r} is not the name of a namespace, such as team-a" in err
    assert api.queries == []


@pytest.mark.parametrize("name", ["..", ".", "a/b", "A", "", "n1,metadata.name=n2", "a..b", "a" * 254])
@pytest.mark.parametrize(
    "command",
    [["inspect"], ["top", "node"], ["top", "pod", "--node"], ["limits", "--node"], ["doctor", "--node"]],
)
async def test_what_cannot_be_a_node_is_no_path_of_the_api(api: Api, command: list[str], name: str) -> None:
    err = await refused(api, *command, name, code=2)
    assert f"{name!r} is not the name of a node, such as gpu-1" in err
    assert api.queries == []


@pytest.mark.parametrize("name", ["..", "deploy/trainer", "A", "", "p1,metadata.namespace=b", "p1,a=b"])
@pytest.mark.parametrize("command", [["explain"], ["limits"], ["top", "pod"]])
async def test_what_cannot_be_a_pod_is_no_selector_of_the_api(
    api: Api, command: list[str], name: str
) -> None:
    err = await refused(api, *command, name, code=2)
    assert f"{name!r} is not the name of a pod, such as trainer-0" in err
    assert api.queries == []


@pytest.mark.parametrize("name", ["n1", "10.0.0.1", "ip-10-0-0-1.eu-west-1.compute.internal", "a" * 253])
async def test_names_of_nodes(api: Api, name: str) -> None:
    code, _, err = await call(api, "inspect", name)
    assert (code, f'nodes "{name}" not found' in err) == (1, True)


@pytest.mark.parametrize("name", ["..", "Team", ""])
async def test_certificates_are_in_a_namespace(api: Api, name: str) -> None:
    err = await refused(api, "certificates", "--namespace", name, code=2)
    assert f"{name!r} is not the name of a namespace, such as team-a" in err


async def test_certificates_are_made_in_the_cluster_of_the_context(api: Api) -> None:
    err = await refused(api, "certificates", "--context", "other")
    assert "context 'other' is not defined" in err


@pytest.mark.parametrize("url", ["prometheus:9090", "http://host:99999", "http://[::1"])
async def test_what_cannot_be_a_url_is_named(api: Api, url: str) -> None:
    code, _, err = await call(api, "recommend", "--prometheus", url)
    assert code == 2
    assert f"{url!r} is not a URL such as http://127.0.0.1:9090" in err
