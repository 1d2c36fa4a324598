"""``kubectl gpushare simulate`` on small files."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpushare.adapters.replay import kernel
from gpushare.cli.simulate.command import simulate
from gpushare.errors import KernelError

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,16000,64000,4,T4\nb,16000,64000,4,T4\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1000,1,500\nq,2000,1000,1,1000\n"


def call(folder: Path, *arguments: str, nodes: str = NODES, pods: str = PODS) -> Result:
    (folder / "nodes.csv").write_text(nodes)
    (folder / "pods.csv").write_text(pods)
    files = ["--nodes", str(folder / "nodes.csv"), "--pods", str(folder / "pods.csv")]
    return CliRunner().invoke(simulate, [*files, *arguments])


def test_the_document_has_mean_and_seeds_of_each_policy(tmp_path: Path) -> None:
    done = call(tmp_path, "--policy", "binpack,fgd", "--seeds", "2", "-o", "json")
    found = json.loads(done.output)["policies"]
    assert list(found) == ["binpack", "fgd"]
    ratio = found["fgd"]["gpu_allocation_ratio"]
    assert ratio["mean"] == pytest.approx(sum(ratio["seeds"]) / 2)
    assert len(ratio["seeds"]) == 2
    assert {"refused_before_80", "refused", "fragmentation"} < found["fgd"].keys()


def test_the_table_has_a_row_for_each_policy(tmp_path: Path) -> None:
    head, *rows = call(tmp_path, "--policy", "random,bestfit").output.splitlines()
    assert head.startswith("POLICY")
    assert {row.split()[0] for row in rows} == {"random", "bestfit"}


def test_the_plot_is_svg_with_a_line_for_each_policy(tmp_path: Path) -> None:
    file = tmp_path / "plot.svg"
    assert call(tmp_path, "--policy", "binpack,spread", "--plot", str(file)).exit_code == 0
    assert file.read_text().count("<polyline") == 2


def test_departures_are_simulated(tmp_path: Path) -> None:
    assert "binpack" in call(tmp_path, "--policy", "binpack", "--lifetime", "5", "--load", "0.5").output


def test_pods_without_gpus_can_be_left_to_the_scheduler(tmp_path: Path) -> None:
    pods = f"{PODS}r,4000,1000,0,0\n"
    arguments = ("--policy", "binpack", "--pods-without-gpu")
    assert call(tmp_path, *arguments, "scheduler", pods=pods).exit_code == 0


@pytest.mark.needs("compiler", "make")
def test_replay_is_a_policy(tmp_path: Path) -> None:
    _, row = call(tmp_path, "--policy", "replay").output.splitlines()
    assert row.split()[0] == "replay"


def test_replay_without_its_kernel_is_an_error_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "_FOLDER", tmp_path)
    kernel.loaded.cache_clear()
    done = call(tmp_path, "--policy", "binpack,replay", "--seeds", "1000")
    kernel.loaded.cache_clear()
    assert isinstance(done.exception, KernelError)
    assert done.output == ""


@pytest.mark.parametrize(
    ("arguments", "nodes", "told"),
    [
        (["--policy", "wrong"], NODES, "no policy 'wrong'; known: binpack, spread"),
        ([], "sn,cpu_milli\n", "nodes.csv: line 1, column memory_mib: is missing"),
        (["--plot", "/nowhere/p.svg"], NODES, "/nowhere/p.svg: No such file or directory"),
        (["--plot", "p.svg", "--lifetime", "5"], NODES, "leave out --lifetime"),
    ],
)
def test_wrong_usage_exits_with_2(tmp_path: Path, arguments: list[str], nodes: str, told: str) -> None:
    done = call(tmp_path, "--seeds", "1", *arguments, nodes=nodes)
    assert done.exit_code == 2
    assert told in done.output
