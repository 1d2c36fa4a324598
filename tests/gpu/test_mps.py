"""NVIDIA's Multi-Process Service on a real GPU: its limits, alone and beside the library's, and its users.

The compute mode of the GPU stays as it is.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

import pytest

from gpushare.contract import ENV_MPS_MEMORY, ENV_MPS_PERCENT
from gpushare.model.hardware import Gpu
from tests.gpu.conftest import LIMIT_MIB, OUT_OF_MEMORY
from tests.support.fixtures.isolation import PRELUDE, Preloaded
from tests.support.fixtures.mps import CONTROL, Mps, running_mps

SM_COUNT = 16
"""CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"""
OTHER_USER = 65534
PROCESSORS = f"""
def processors():
    count = c.c_int()
    cuda.cuDeviceGetAttribute(c.byref(count), {SM_COUNT}, 0)
    return count.value
"""


@pytest.fixture(scope="module")
def mps(gpu: Gpu) -> Iterator[Mps]:
    if shutil.which(CONTROL) is None:
        pytest.skip(f"there is no {CONTROL}")
    if os.getuid():
        pytest.skip("needs root, to run clients as another user")
    del gpu
    with running_mps() as daemon:
        yield daemon


def client(mps: Mps, code: str, env: Mapping[str, str] | None = None) -> list[int]:
    """What a program prints that uses MPS, without the library."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-S", "-c", PRELUDE + PROCESSORS + code],
        env={**os.environ, **mps.env, **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answer: list[int] = json.loads(done.stdout)
    return answer


def test_the_memory_limit_of_mps_applies_to_each_process(mps: Mps) -> None:
    limited = {ENV_MPS_MEMORY: "0=3000M"}
    code = "context(); say(alloc(2000)[0], alloc(1500)[0])"
    assert client(mps, code, limited) == [0, OUT_OF_MEMORY]
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-S", "-c", f"{PRELUDE}context(); say(alloc(2000)[0]); sys.stdin.read()"],
        env={**os.environ, **mps.env, **limited},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "[0]\n"
        assert client(mps, code, limited) == [0, OUT_OF_MEMORY]
        other.communicate("")


def test_a_percentage_is_a_part_of_the_sms(mps: Mps, gpu: Gpu) -> None:
    (every,) = client(mps, "context(); say(processors())")
    (some,) = client(mps, "context(); say(processors())", {ENV_MPS_PERCENT: "25"})
    sys.stdout.write(f"{gpu.model}: {some} of {every} SMs\n")
    assert 0.2 * every <= some <= 0.26 * every


def test_the_library_shows_its_limit_to_clients_of_mps(mps: Mps, container: Preloaded) -> None:
    code = "context(); say(alloc(3000)[0], alloc(2000)[0], left()[2])"
    env = {**mps.env, ENV_MPS_MEMORY: f"0={LIMIT_MIB}M"}
    assert json.loads(container.python(code, env).stdout) == [0, OUT_OF_MEMORY, LIMIT_MIB]


def test_a_client_of_another_user_waits_for_those_of_the_first(mps: Mps, gpu: Gpu) -> None:
    holds_s = 4
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-S", "-c", f"{PRELUDE}import time; context(); say(0); time.sleep({holds_s})"],
        env={**os.environ, **mps.env},
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdout is not None
        first.stdout.readline()
        begun, server = time.monotonic(), mps.ask("get_server_list")
        become = f"import os; os.setgid({OTHER_USER}); os.setuid({OTHER_USER})\n"
        other = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-S", "-c", become + PRELUDE + "say(context())"],
            env={**os.environ, **mps.env},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        waited = time.monotonic() - begun
    sys.stdout.write(f"{gpu.model}: the second user waited {waited:.1f} s of {holds_s}\n")
    assert other.stdout == "[0]\n"
    assert waited > holds_s / 2
    assert mps.ask("get_server_list") != server
