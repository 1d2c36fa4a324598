"""Files of a workload that is saved."""

from pathlib import Path

import click
import pytest

from gpushare.cli.simulate.save import NODES, PODS, save
from gpushare.simulation.workload import NodeSpec, Workload


@pytest.mark.parametrize("name", [NODES, PODS])
def test_a_file_that_exists_is_not_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(click.UsageError, match=f"{name} exists already"):
        save(Workload((NodeSpec("a", 1, 1, 1, "T4"),), ()), tmp_path)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["mine"]
