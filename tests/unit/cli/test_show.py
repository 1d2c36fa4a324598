"""The commands with a FAKE API server on loopback."""

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpushare.cli.lib.screen import Screen
from gpushare.cli.top.collect import follow
from gpushare.errors import ConfigError
from gpushare.monitoring.page import MetricSample
from gpushare.overview.connection import ApiSource
from gpushare.overview.exporters import collect_series
from tests.support.builders.api_objects import literal, node, pod, share, whole
from tests.unit.cli.fakes import Api, call, documented, kubeconfig, refused, shown

PAGE = """# TYPE gpushare_exporter_source_up gauge
gpushare_exporter_source_up{source="nvml"} 1
# TYPE gpushare_card_memory_used_bytes gauge
gpushare_card_memory_used_bytes{node="n1",card="0",uuid="GPU-1"} 1048576
# TYPE gpushare_container_memory_used_bytes gauge
gpushare_container_memory_used_bytes{node="n1",namespace="d",pod="p",container="c",card="0",uuid="GPU-1"} 0
"""


async def test_inspect_shows_sharing_nodes_over_all_pages(api: Api) -> None:
    api.nodes = [node("n1", share(15)), node("n2", {}), node("n3", share(15))]
    api.pods = [pod(f"p{i}", "n3", 2, index="0") for i in range(5)]
    api.page_size = 2
    out = await shown(api, "inspect")
    assert out == literal(
        """
        NAME  IPADDRESS  GPU0(Allocated/Total)  GPU Memory(GiB)
        n1    10.0.0.1   0/15                   0/15
        n3    10.0.0.1   10/15                  10/15
        ------------------------------------------
        Allocated/Total GPU Memory In Cluster:
        10/30 (33%)··
        """
    )


async def test_only_running_bound_pods_are_requested(api: Api) -> None:
    api.nodes = [node("n1", share(15))]
    await call(api, "inspect")
    await call(api, "inspect", "n1")
    asked = [query["fieldSelector"] for query in api.queries if "fieldSelector" in query]
    ended = "status.phase!=Succeeded,status.phase!=Failed"
    assert asked == [f"spec.nodeName!=,{ended}", f"spec.nodeName=n1,{ended}"]


async def test_one_node_is_shown_alone_and_also_if_it_does_not_share(api: Api) -> None:
    api.nodes = [node("n1", share(15)), node("n2", {})]
    assert (await call(api, "inspect", "n1", "-o", "name"))[1] == "node/n1\n"
    assert (await call(api, "inspect", "n2", "-o", "name"))[1] == "node/n2\n"


async def test_an_unknown_node_is_an_error(api: Api) -> None:
    for arguments in (["inspect", "x"], ["inspect", "-w", "x"], ["top", "node", "x"]):
        assert await call(api, *arguments) == (1, "", 'Error: nodes "x" not found\n')


async def test_a_selector_chooses_nodes(api: Api) -> None:
    api.nodes = [node("n1", share(15), labels={"zone": "a"}), node("n2", share(15), labels={"zone": "b"})]
    assert (await call(api, "inspect", "-l", "zone in (b)", "-o", "name"))[1] == "node/n2\n"


async def test_top_node_shows_all_nodes_and_with_s_those_that_share(api: Api) -> None:
    api.nodes = [node("n1", share(15)), node("n2", whole(1)), node("n3", {})]
    assert (await call(api, "top", "node", "-o", "name"))[1] == "node/n1\nnode/n2\nnode/n3\n"
    assert (await call(api, "top", "node", "-s", "-o", "name"))[1] == "node/n1\n"


async def test_top_node_refuses_a_node_with_gpus_of_two_plugins(api: Api) -> None:
    api.nodes = [node("n1", share(15) | whole(1))]
    err = await refused(api, "top", "node")
    assert err == (
        "Error: nvidia.com/gpu and aliyun.com/gpu-mem are both used in node n1 ."
        "Please use one kind resource of them\n"
    )


async def test_invalid_objects_are_reported_and_do_not_hide_the_rest(api: Api) -> None:
    api.nodes = [node("n1", share(15)), node("n2", share("many")), {"metadata": {"name": "n3"}, "status": 7}]
    api.pods = [pod("p", "n1", {"a": 1})]
    code, out, err = await call(api, "inspect", "-o", "name")
    assert (code, out) == (0, "node/n1\n")
    lines = err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("warning: node n3: ")
    assert lines[1].startswith("warning: pod default/p: ")
    assert lines[2].startswith("warning: node n2: aliyun.com/gpu-mem: quantity 'many'")


async def test_an_answer_that_is_no_list_is_an_error(api: Api) -> None:
    api.garbage = True
    err = await refused(api, "inspect")
    assert err.startswith("Error: /api/v1/nodes: list cannot be read: ")


async def test_an_item_that_is_no_object_is_reported(api: Api) -> None:
    api.nodes = [7, node("n1", share(15))]
    code, out, err = await call(api, "inspect", "-o", "name")
    assert (code, out) == (0, "node/n1\n")
    assert err.startswith("warning: node (without a name): ")


async def test_a_server_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    gone = Api()
    gone.kubeconfig = kubeconfig(tmp_path, "http://127.0.0.1:9")
    err = await refused(gone, "inspect")
    assert err.startswith("Error: GET http://127.0.0.1:9/api/v1/nodes: ")
    assert err.count("\n") == 1


async def test_an_unknown_context_is_an_error(api: Api) -> None:
    err = await refused(api, "inspect", "--context", "elsewhere")
    assert "elsewhere" in err


async def test_a_watch_appends_every_change_and_ends_with_130(api: Api) -> None:
    api.nodes = [node("n1", share(15))]
    arguments = ["-m", "gpushare", "top", "node", "-s", "-w", "--kubeconfig", api.kubeconfig]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    first = [(await process.stdout.readline()).decode() for _ in range(5)]
    assert first[-1] == "0/15 (GiB) (0%)  \n"
    await api.news.put({"type": "ADDED", "object": pod("p", "n1", 4, index="0")})
    second = [(await process.stdout.readline()).decode() for _ in range(5)]
    assert second[-1] == "4/15 (GiB) (26%)  \n"
    await api.news.put({"type": "DELETED", "object": pod("p", "n1", 4, index="0")})
    third = [(await process.stdout.readline()).decode() for _ in range(5)]
    assert third == first
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert (process.returncode, out, err.strip()) == (130, b"", b"")


async def test_a_watch_ends_where_the_cluster_can_no_longer_be_shown(api: Api) -> None:
    api.nodes = [node("n1", share(15))]
    watching = asyncio.create_task(call(api, "top", "node", "-w"))
    await api.node_news.put({"type": "MODIFIED", "object": node("n1", share(15) | whole(1))})
    code, out, err = await watching
    assert (code, out.count("NAME")) == (1, 1)
    assert err.startswith("Error: nvidia.com/gpu and aliyun.com/gpu-mem are both used in node n1")


def test_a_terminal_is_redrawn_and_the_same_text_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(redraw=True)
    for text in ("one\n", "one\n", "two\n"):
        screen.show(text)
    assert capsys.readouterr().out == "\x1b[H\x1b[2J\x1b[3Jone\n\x1b[H\x1b[2J\x1b[3Jtwo\n"


def test_a_problem_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(redraw=False)
    screen.warn(["a"])
    screen.warn(["a", "b"])
    assert capsys.readouterr() == ("", "warning: a\nwarning: b\n")


async def test_a_watch_of_usage_outlives_errors_after_the_first_round(api: Api) -> None:
    shown: list[int] = []
    reported: list[str] = []

    class Enough(Exception):
        pass

    def show(samples: Sequence[MetricSample]) -> None:
        shown.append(len(samples))
        if len(shown) == 2:
            raise Enough
        api.exporters = {"n1": None}

    def report(problem: str) -> None:
        reported.append(problem)
        api.exporters = {} if len(reported) == 1 else {"n1": PAGE}

    def watch() -> None:
        ApiSource(api.kubeconfig).ask(
            lambda client: follow(lambda: collect_series(client, None, report), show, report, 0.01)
        )

    api.exporters = {"n1": PAGE}
    with pytest.raises(Enough):
        await asyncio.to_thread(watch)
    unreachable, absent = reported
    assert "error trying to reach service; next attempt in 0 s" in unreachable
    assert absent.startswith("no exporter runs in kube-system")
    api.exporters = {}
    with pytest.raises(ConfigError, match="no exporter runs"):
        await asyncio.to_thread(watch)


async def test_usage_of_pods_and_gpus_comes_from_the_exporters(api: Api) -> None:
    api.exporters = {"n1": PAGE}
    shown = literal(
        """
        NAMESPACE  POD  CONTAINER  NODE  GPU  USED   ALLOCATED  UTILIZATION
        d          p    c          n1    0    0 MiB  -          -
        """
    )
    assert await call(api, "top", "pod", "-A") == (0, shown, "")
    (item,) = (await documented(api, "top", "node", "n1", "--use", "-o", "json"))["items"]
    assert (item["node"], item["gpu"], item["usedBytes"], item["powerWatts"]) == ("n1", "0", 2**20, None)
    assert api.queries[-1] == {
        "labelSelector": "component=gpushare-exporter",
        "fieldSelector": "status.phase=Running,spec.nodeName=n1",
        "limit": "1000",
    }
    code, out, _ = await call(api, "top", "node", "--metric", "gpushare_card_memory_used_bytes")
    assert (code, out.splitlines()[1].split()) == (0, ["n1", "0", "GPU-1", "1.04858e+06"])


async def test_an_exporter_without_an_answer_is_reported_and_the_others_are_shown(api: Api) -> None:
    api.exporters = {"n1": PAGE, "n2": None, "n3": "<html>"}
    code, out, err = await call(api, "top", "pod", "-A")
    assert (code, len(out.splitlines())) == (0, 2)
    assert "warning: exporter e-n2 on node n2: " in err
    assert "warning: exporter e-n3 on node n3: this is not the metrics page of an exporter" in err


@pytest.mark.parametrize(
    ("exporters", "arguments", "text"),
    [
        ({}, ["pod"], "no exporter runs in kube-system (label component=gpushare-exporter)"),
        ({}, ["node", "n7", "--use"], "no exporter runs on node n7"),
        ({"n1": None}, ["pod"], "exporter e-n1 on node n1: "),
        ({"n1": PAGE}, ["pod", "--metric", "gpu"], "--metric: 'gpu' is not a metric of pods"),
    ],
)
async def test_what_cannot_be_shown_is_reported(
    api: Api, exporters: dict[str, str | None], arguments: list[str], text: str
) -> None:
    api.exporters = exporters
    err = await refused(api, "top", *arguments)
    assert text in err


@pytest.mark.parametrize("view", [["-l", "a=b"], ["-s"], ["-d"], ["-o", "wide"]])
async def test_a_view_of_nodes_with_usage_is_wrong_usage(api: Api, view: list[str]) -> None:
    err = await refused(api, "top", "node", "--use", *view, code=2)
    assert "Error: --use and --metric support only NODE, --watch and --output json or yaml" in err
