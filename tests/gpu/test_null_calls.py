"""Under the library NULL gets the answer of the driver of a real GPU: the same code, or the same crash."""

import json

import pytest

from tests.support.fixtures.isolation import Preloaded
from tests.support.fixtures.null_calls import Answers, command, differences

TIMEOUT_S = 600.0
"""Each function is called in a separate process, whose context takes a second."""


def answers(container: Preloaded, preload: str) -> Answers:
    container.timeout_s = TIMEOUT_S
    done = container.run(command(), LD_PRELOAD=preload)
    assert done.returncode == 0, done.stderr
    found: Answers = json.loads(done.stdout)
    return found


@pytest.mark.timeout(3 * TIMEOUT_S)
def test_every_function_answers_null_as_the_driver_does(container: Preloaded) -> None:
    launching = container.with_launches()
    alone = answers(launching, "")
    assert alone["cuMemGetInfo_v2"] == {"none": 0, "0": 0, "1": 0, "all": 0}
    assert differences(alone, answers(launching, launching.preload)) == {}
