import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpushare.isolation import limits
from gpushare.isolation.region_layout import LAYOUT, SIZE
from tests.support.fixtures.isolation import Container, needs_compiler, share

pytestmark = needs_compiler
GOOD = limits.text([share(4, 15)])

# The descriptors of the region, and a function that closes the only one and returns its number.
DESCRIPTORS = """
def regions():
    os.chdir("/proc/self/fd")
    return [int(n) for n in os.listdir() if os.path.lexists(n) and os.readlink(n) == os.environ["REGION"]]
def shut():
    (number,) = regions(); os.close(number); return number
"""


def refuses(container: Container, why: str) -> None:
    done = container.python("say(context())")
    assert done.stdout == "[2]\n"
    assert why in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD[:-1],
        GOOD.replace("end\n", ""),
        GOOD + "end\n",
        GOOD.replace("gpushare-limit 1", "gpushare-limit 2"),
        GOOD.replace("limit_mib=4301", "limit_mib=16130"),
        GOOD.replace("limit_mib=4301", "limit_mib=-1"),
        GOOD.replace("limit_mib=4301", "limit_mib=99999999999999999999"),
        GOOD.replace("card_units=15", "card_units=0"),
        GOOD.replace("units=4", "units=04"),
        # More units than the GPU has, with the limit that they would have.
        GOOD.replace("units=4", "units=16").replace("limit_mib=4301", "limit_mib=17205"),
        GOOD.replace("\nend", f"\n{GOOD.splitlines()[1]}\nend"),
        GOOD.replace("GPU-", "GPU-" + "0" * 60),
        GOOD * 100,
    ],
)
def test_an_invalid_limit_file_allows_no_memory(container: Container, text: str) -> None:
    container.write_limit(text)
    refuses(container, f"{container.folder}/limit: ")


def test_without_a_limit_file_no_memory_is_allowed(container: Container) -> None:
    (container.folder / "limit").unlink()
    refuses(container, "it cannot be opened")


def test_a_limit_file_that_others_may_write_allows_no_memory(container: Container) -> None:
    (container.folder / "limit").chmod(0o666)
    refuses(container, "not a regular file that only root can write")


@pytest.mark.needs("root")
def test_a_limit_file_of_another_user_allows_no_memory(container: Container) -> None:
    os.chown(container.folder / "limit", 1000, 1000)
    refuses(container, "not a regular file that only root can write")


def test_a_limit_file_that_is_a_link_allows_no_memory(container: Container, tmp_path: Path) -> None:
    path = container.folder / "limit"
    path.rename(tmp_path / "limit")
    path.symlink_to(tmp_path / "limit")
    refuses(container, "it cannot be opened")


def test_the_environment_raises_no_limit(container: Container) -> None:
    names = ("CUDA_DEVICE_MEMORY_LIMIT", "GPUSHARE_FOLDER", "CGPU_DISABLE", "GPUSHARE_LIMIT")
    env = dict.fromkeys(names, "true")
    assert container.python("context(); say(alloc(4302)[0])", env).stdout == "[2]\n"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is too small"),
        (bytes(100), "it is too small"),
        (b"x" * SIZE, "it is not a region of this version"),
    ],
)
def test_an_invalid_region_allows_no_memory(container: Container, content: bytes, why: str) -> None:
    container.shared.write_bytes(content)
    refuses(container, f"{container.shared}: {why}")


def test_a_region_of_another_limit_allows_no_memory(container: Container) -> None:
    container.python("context()")
    container.write_limit(limits.text([share(5, 15)]))
    refuses(container, "it is for other GPUs or limits")


def test_programs_survive_a_truncated_region(container: Container) -> None:
    code = f"context(); say(alloc(1)[0]); os.truncate({str(container.shared)!r}, 10); say(alloc(1)[0])"
    done = container.python(code)
    assert done.stdout == "[0]\n[2]\n"
    assert "it was truncated" in done.stderr


def test_a_region_that_is_too_large_is_used_as_it_should_be(container: Container) -> None:
    """A node agent of a later version may create larger regions."""
    os.truncate(container.shared, SIZE + 4096)
    assert container.python("context(); say(alloc(4301)[0], alloc(1)[0])").stdout == "[0, 2]\n"


def test_programs_survive_an_overwritten_lock_of_the_region(container: Container) -> None:
    code = f"""
context(); say(alloc(1)[0])
with open({str(container.shared)!r}, "r+b") as f: f.seek(24); f.write(b"\\xff" * 64)
say(alloc(1)[0])
"""
    done = container.python(code)
    assert done.stdout == "[0]\n[2]\n"
    assert "it was overwritten" in done.stderr


def test_a_region_with_too_much_usage_allows_no_memory(container: Container) -> None:
    container.python("context()")
    content = bytearray(container.shared.read_bytes())
    at = LAYOUT.cards_at + 48 + 8
    content[at : at + 8] = b"\xff" * 8  # used, of the first card
    container.shared.write_bytes(content)
    done = container.python("context(); say(alloc(4301)[0], alloc(1)[0])")
    assert done.stdout == "[0, 2]\n"  # the sum is recomputed from the slots


def test_a_program_that_closes_the_region_goes_on(container: Container) -> None:
    code = f"{DESCRIPTORS}context(); shut(); say(alloc(1)[0], left()[1]); shut()"
    code += "; say(alloc(4300)[0], len(regions()))"
    done = container.python(code, {"REGION": str(container.shared)})
    assert done.stdout == "[0, 4300]\n[0, 1]\n"
    assert done.stderr == ""


@pytest.mark.parametrize("size", [10, 2 * SIZE])
def test_a_file_with_the_descriptor_of_the_region_stays_as_it_is(
    container: Container, tmp_path: Path, size: int
) -> None:
    (tmp_path / "own").write_bytes(bytes(size))
    code = f"""{DESCRIPTORS}
context(); number = shut(); os.dup2(os.open(os.environ["OWN"], os.O_RDONLY), number)
os.read(number, 10); say(alloc(1)[0], alloc(4300)[0], os.lseek(number, 0, 1))
"""
    env = {"REGION": str(container.shared), "OWN": str(tmp_path / "own")}
    done = container.python(code, env)
    assert done.stdout == "[0, 0, 10]\n"
    assert done.stderr == ""


def test_the_descriptor_of_the_region_has_a_high_number_if_it_may(container: Container) -> None:
    code = f"{DESCRIPTORS}context(); (number,) = regions(); say(number >= 512, alloc(1)[0])"
    env = {"REGION": str(container.shared)}
    assert container.python(code, env).stdout == "[true, 0]\n"
    few = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
    assert container.python(few + code, env).stdout == "[false, 0]\n"


def test_another_region_in_place_of_a_closed_one_allows_no_memory(container: Container) -> None:
    code = f"""{DESCRIPTORS}
context(); say(alloc(1)[0]); shut()
path = os.environ["REGION"]; content = open(path, "rb").read()
os.unlink(path); open(path, "wb").write(content)
say(alloc(1)[0], len(regions()))
"""
    done = container.python(code, {"REGION": str(container.shared)})
    assert done.stdout == "[0]\n[2, 0]\n"
    assert "it was closed and cannot be opened again" in done.stderr


@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    at=st.integers(0, 1600) | st.integers(0, SIZE - 1),
    noise=st.binary(min_size=1, max_size=300),
)
def test_random_bytes_in_a_region_end_no_program(container: Container, at: int, noise: bytes) -> None:
    container.limit(share(4, 15))
    container.python("context()")
    with container.shared.open("r+b") as file:
        file.seek(at)
        file.write(noise[: SIZE - at])
    done = container.python("v = context(); say(v if v else alloc(4302)[0])")
    assert done.stdout == "[2]\n"
