"""The driver that the tests of a process read.

What belongs here: the stub in this process. What does not: the stub in others (``NvmlStub`` alone).
"""

from pathlib import Path

import pytest

from testbed.nvml import NvmlStub, card
from tests.support.fixtures.nvml import MakeDriver, load


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeDriver:
    """A function that loads a driver until the end of the test."""
    return lambda **described: load(NvmlStub(tmp_path, **described), monkeypatch)


@pytest.fixture
def stub(driver: MakeDriver) -> NvmlStub:
    """Driver 535 with two T4."""
    return driver(era=535, cards=[card("T4")] * 2)
