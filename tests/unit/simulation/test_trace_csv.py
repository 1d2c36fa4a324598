"""CSV files of nodes and pods, valid and not."""

import pytest

from gpushare.errors import InvalidRequest
from gpushare.simulation.trace_csv import nodes_of, pods_of
from gpushare.simulation.workload import NodeSpec, Shape

NODE_HEAD = "sn,cpu_milli,memory_mib,gpu,model\n"
POD_HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
MODELS = frozenset({"T4", "P100"})


def test_nodes_and_pods_are_read() -> None:
    assert nodes_of(NODE_HEAD + "a,64000,262144,2,P100\n") == (NodeSpec("a", 64000, 262144, 2, "P100"),)
    assert pods_of(POD_HEAD + "p,1,2,1,500,T4|P100\nq,1,2,0,0,\n", MODELS) == (
        Shape(1, 2, 1, 500, MODELS),
        Shape(1, 2, 0, 0),
    )


def test_gpu_spec_may_be_absent_and_other_columns_are_ignored() -> None:
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos\np,1,2,8,1000,LS\n"
    assert pods_of(text, MODELS) == (Shape(1, 2, 8, 1000),)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "line 1, column sn"),
        ("sn,cpu_milli,gpu,model\n", "line 1, column memory_mib"),
        (NODE_HEAD, "line 2, column sn: the file has no rows"),
        (NODE_HEAD + "a,-1,2,2,T4\n", "line 2, column cpu_milli: '-1'"),
        (NODE_HEAD + "a,1,x,2,T4\n", "line 2, column memory_mib: 'x'"),
        (NODE_HEAD + "a,1,2,1e3,T4\n", "line 2, column gpu"),
        (NODE_HEAD + "a,1,2,99999999,T4\n", "line 2, column gpu"),
        (NODE_HEAD + "a,1,2\n", "line 2, column gpu: is empty"),
        (NODE_HEAD + "a,1,2,2,\n", "line 2, column model"),
        (NODE_HEAD + "a,1,2,2,T4\na,1,2,2,T4\n", "line 3, column sn: 'a' is in line 2 too"),
        (NODE_HEAD + "a,1,2,0,\n", "column gpu: no node has a GPU"),
        (NODE_HEAD + "a," + "9" * 40 + ",2,2,T4\n", "line 2, column cpu_milli"),
        (NODE_HEAD + '"a,1,2,2,T4\n', "line 2"),
    ],
)
def test_invalid_nodes_are_named(text: str, where: str) -> None:
    with pytest.raises(InvalidRequest, match=where):
        nodes_of(text)


@pytest.mark.parametrize(
    ("row", "where"),
    [
        ("p,1,2,1,500,H100", "column gpu_spec: no node has the model 'H100'"),
        ("p,1,2,1,1001,", "column gpu_milli"),
        ("p,1,2,1,0,", "column gpu_milli: 0 with num_gpu 1"),
        ("p,1,2,0,0,", "column num_gpu: no pod requests a GPU"),
        (",1,2,1,500,", "column name: is empty"),
    ],
)
def test_invalid_pods_are_named(row: str, where: str) -> None:
    with pytest.raises(InvalidRequest, match=f"line 2, {where}"):
        pods_of(POD_HEAD + row + "\n", MODELS)


def test_nodes_may_say_how_large_their_gpus_are() -> None:
    head = "sn,cpu_milli,memory_mib,gpu,model,gpu_milli"
    found = nodes_of(f"{head}\na,1000,1000,2,T4,250\nb,1000,1000,1,T4,\n")
    assert [each.milli for each in found] == [250, 1000]
    with pytest.raises(InvalidRequest, match="line 2, column gpu_milli: 0 with gpu 1"):
        nodes_of(f"{head}\na,1000,1000,1,T4,0\n")
