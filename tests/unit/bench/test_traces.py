"""The table of the trace benchmark, on a small folder."""

from pathlib import Path

from click.testing import CliRunner

from tests.bench import traces

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,16000,64000,4,T4\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,0,0,1,1000\n"


def folder_of(folder: Path, *names: str) -> Path:
    (folder / traces.NODES).write_text(NODES)
    for name in names:
        (folder / f"{traces.PODS}{name}.csv").write_text(PODS)
    return folder


def test_a_row_has_our_result_and_the_published_one(tmp_path: Path) -> None:
    folder = str(folder_of(tmp_path, "own", "default"))
    shown = CliRunner().invoke(traces.main, [folder, "--policy", "binpack,fgd", "--seeds", "1"]).output
    assert shown.splitlines()[-4:] == [
        "| trace | binpack | fgd |",
        "|---|---|---|",
        "| default | 100.00 | 100.00 (95.39) |",
        "| own | 100.00 | 100.00 |",
    ]


def test_a_folder_without_traces_is_an_error_that_names_it(tmp_path: Path) -> None:
    done = CliRunner().invoke(traces.main, [str(tmp_path)])
    assert done.exit_code == 2
    assert f"{tmp_path} has no file openb_pod_list_<trace>.csv" in done.output
