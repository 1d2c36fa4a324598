"""Command lines of users of kubectl."""

import pytest

from tests.support.builders.api_objects import node, pod, share
from tests.unit.cli.fakes import Api, call, refused, shown
from tests.unit.cli.limits.test_command import held, page

pytestmark = pytest.mark.asyncio


def fill(api: Api) -> None:
    api.nodes = [node("n1", share(14), labels={"cgpu": "true"})]
    api.pods = [pod("a", "n1", 4, namespace="ml"), pod("big", None, 20, namespace="ml", phase="Pending")]
    api.exporters = {"n1": page(held("ml/a"), held("other/a"))}


@pytest.mark.parametrize(
    "words",
    [
        "top pod a -n ml",
        "top pods a -n ml",
        "-n ml top pod a",
        "top -n ml pod a",
        "--namespace=ml top pod pod/a",
        "top pod pods a -n ml",
    ],
)
async def test_one_pod(api: Api, words: str) -> None:
    fill(api)
    out = await shown(api, *words.split())
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [["ml", "a"]]


@pytest.mark.parametrize("words", ["explain big", "explain pod/big", "explain pod big", "explain po big"])
async def test_explain_takes_a_pod_as_kubectl_does(api: Api, words: str) -> None:
    fill(api)
    assert (await shown(api, *words.split(), "-n", "ml")).startswith("Pod ml/big: ")


async def test_several_pods_are_wrong_usage(api: Api) -> None:
    assert "Got several pods: a b" in await refused(api, "top", "pod", "a", "b", code=2)
    assert "Missing argument" in await refused(api, "explain", code=2)


@pytest.mark.parametrize("words", ["top nodes", "top node node/n1", "-n ml top node", "inspect -n ml"])
async def test_nodes_have_no_namespace(api: Api, words: str) -> None:
    fill(api)
    assert "n1" in await shown(api, *words.split())


async def test_help_of_a_command(api: Api) -> None:
    for words in (["help", "top", "pod"], ["top", "help", "pod"], ["top", "pod", "--help"]):
        assert "Show the GPU usage of the pods" in await shown(api, *words)


async def test_an_unknown_pod_is_an_error_and_an_empty_namespace_is_not(api: Api) -> None:
    fill(api)
    assert await refused(api, "top", "pod", "x") == (
        "Error: there is no pod x in namespace default (-A: all namespaces)\n"
    )
    assert await call(api, "top", "pod") == (0, "", "No resources found in default namespace.\n")
    assert await call(api, "top", "pod", "big", "-n", "ml") == (
        0,
        "",
        "pod ml/big has no usage: it has no node yet; `kubectl gpushare explain` says why\n",
    )


async def test_pods_are_selected_by_labels(api: Api) -> None:
    fill(api)
    await call(api, "top", "pod", "-A", "-l", "app=trainer")
    await call(api, "limits", "-A", "-l", "app=trainer")
    asked = [query["labelSelector"] for query in api.queries if "labelSelector" in query]
    assert asked.count("app=trainer") == 2


async def test_another_user_is_impersonated(api: Api) -> None:
    fill(api)
    await call(api, "--as", "ann", "--as-group=g", "inspect", "--as-group", "h")
    assert api.impersonated[-1] == ("ann", ["g", "h"])
    assert "--as-group needs --as" in await refused(api, "inspect", "--as-group", "g", code=2)
