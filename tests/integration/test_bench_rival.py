"""Another extender as an arm of the benchmark, in a tiny cluster: here it is our own, by its command."""

import re
import shlex

import pytest

from devkit.ports import free_ports
from testbed.daemons import console_script
from tests.bench.extender import large
from tests.bench.rival import Rival

pytestmark = pytest.mark.timeout(300)


def ours() -> Rival:
    (ops_port,) = free_ports(1)
    words = [console_script("gpushare"), "extender", "--host=127.0.0.1", f"--ops-port={ops_port}"]
    return Rival(shlex.join(words))


async def test_a_rival_has_a_table_of_filter_after_ours(capsys: pytest.CaptureFixture[str]) -> None:
    await large(4, 36, None, ours())
    mine, _, its = capsys.readouterr().out.partition("rival: first answer after ")
    for part in (mine, its):
        assert re.findall(r"^\| (filter, all \w+) \| 4 \|", part, re.MULTILINE) == [
            "filter, all pass",
            "filter, all refused",
        ]
        assert re.search(r"^resident after the calls: \d+ MiB$", part, re.MULTILINE)
