"""Shell completion of the plugin's command line."""

import asyncio
from pathlib import Path

import pytest

from gpushare.cli.complete import complete
from gpushare.cli.inspect.command import inspect
from gpushare.cli.main import plugin
from tests.support.builders.api_objects import node, pod, share, whole
from tests.unit.cli.fakes import Api, kubeconfig

NOTHING = [":4"]


def offered(*words: str) -> list[str]:
    return complete(plugin, words).splitlines()


def test_commands_are_offered_with_their_help() -> None:
    assert offered("to") == ["top\tShow GPUs by node, or their usage by pod.", ":4"]
    assert [line.partition("\t")[0] for line in offered("top", "")] == ["node", "pod", ":4"]


def test_flags_and_their_values_are_offered() -> None:
    assert "--selector\tOnly nodes with these labels." in complete(inspect, ["--"]).splitlines()
    assert complete(inspect, ["-o", ""]).splitlines() == ["wide", "json", "yaml", "name", ":4"]


def test_files_are_completed_by_the_shell() -> None:
    assert complete(inspect, ["--kubeconfig", ""]).splitlines() == [":0"]


def test_no_words_are_completed_as_one_empty_word() -> None:
    assert complete(plugin, []) == complete(plugin, [""])


async def test_nodes_with_gpus_are_offered(api: Api) -> None:
    api.nodes = [node("a1", share(15)), node("a2", {}), node("b", share(15)), node("a3", whole(2))]
    words = ["inspect", "--kubeconfig", api.kubeconfig, "a"]
    assert await asyncio.to_thread(offered, *words) == ["a1", "a3", ":4"]


async def test_pods_with_gpus_are_offered_by_namespace(api: Api) -> None:
    api.nodes = [node("n", share(15))]
    api.pods = [pod("mine", "n", 2, index="0"), pod("idle", "n", 0)]
    api.pods[0]["metadata"]["namespace"] = "team"
    words = ["limits", "--kubeconfig", api.kubeconfig]
    assert await asyncio.to_thread(offered, *words, "-n", "team", "") == ["mine", ":4"]
    assert await asyncio.to_thread(offered, *words, "-n", "other", "") == NOTHING
    assert await asyncio.to_thread(offered, *words, "") == NOTHING
    assert await asyncio.to_thread(offered, *words, "-A", "") == ["mine", ":4"]


@pytest.mark.parametrize("server", ["http://127.0.0.1:1", "not a url"])
def test_without_an_answer_nothing_is_offered_or_printed(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["top", "node", "--kubeconfig", kubeconfig(tmp_path, server), ""]
    assert offered(*words) == NOTHING
    assert offered("top", "node", "--kubeconfig", str(tmp_path / "none"), "") == NOTHING
    assert capsys.readouterr() == ("", "")
