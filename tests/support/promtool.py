"""Unit tests of Prometheus rules with promtool: series by minute, and expected query results."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed.programs.debian import program
from tools.monitoring_files import FOLDER

FILES = [FOLDER / "rules.yaml", FOLDER / "alerts.yaml"]


@dataclass(frozen=True)
class Asked:
    """A query, its minute, and the expected series with their values."""

    expr: str
    minute: int
    gives: Mapping[str, float]


def promtool(*arguments: str | Path) -> str:
    """Run promtool; fail with its output. For tests that are marked with ``needs("promtool")``."""
    argv = [program("promtool"), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    if done.returncode:
        pytest.fail(done.stdout + done.stderr, pytrace=False)
    return done.stdout


def check(folder: Path, series: Mapping[str, str], asked: Sequence[Asked]) -> None:
    """Fail if the rules return anything else for these series, which have one value per minute."""
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [_question(each) for each in asked],
    }
    document = {"rule_files": [str(path) for path in FILES], "evaluation_interval": "1m", "tests": [test]}
    path = folder / "test.yaml"
    # JSON is YAML too.
    path.write_text(json.dumps(document))
    promtool("test", "rules", path)


def _question(asked: Asked) -> dict[str, Any]:
    samples = [{"labels": labels, "value": value} for labels, value in asked.gives.items()]
    return {"expr": asked.expr, "eval_time": f"{asked.minute}m", "exp_samples": samples}
