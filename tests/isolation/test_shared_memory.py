"""Memory that one process of a container creates and another one uses."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.isolation.test_vmm import SHARE, VMM
from tests.support.fixtures.isolation import MIB, Client, Container, needs_compiler

pytestmark = needs_compiler

GIVES = f"{VMM}{SHARE}v, h = create(1000); say(give(h)); sys.stdin.readline()\n"
IPC = """
class Handle(c.Structure): _fields_ = [("bytes", c.c_ubyte * 64)]
def open_memory(text):
    at = c.c_uint64()
    return cuda.cuIpcOpenMemHandle_v2(c.byref(at), Handle.from_buffer_copy(bytes.fromhex(text)), 1), at
def unused(): return left()[1]
context()
"""
GIVES_IPC = f"""{IPC}
v, at = alloc(1000); h = Handle(); v = cuda.cuIpcGetMemHandle(c.byref(h), at)
say(bytes(h).hex()); sys.stdin.readline()
"""


@contextmanager
def exporter(container: Container, code: str) -> Iterator[tuple[Client, Any]]:
    """A process that has created an allocation, and its output about it."""
    with container.start(code) as process:
        yield process, json.loads(process.stdout.readline())[0]
        process.kill()


def answers(process: Client, count: int) -> list[Any]:
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def used(container: Container) -> int:
    return container.seen().cards[0].used // MIB


def test_imported_memory_is_charged_once(container: Container) -> None:
    with exporter(container, GIVES) as (process, number):
        code = f"""{VMM}{SHARE}
h = take(file_of({process.pid}, {number}))
say(unused(), map_at(0x10000000, 1000, h), unused(), create(3302)[0], create(3301)[0])
say(unmap(0x10000000, 1000), cuda.cuMemRelease(h), unused())
"""
        done = container.python(code)
        assert [json.loads(line) for line in done.stdout.splitlines()] == [[3301, 0, 3301, 2, 0], [0, 0, 0]]
        assert container.python(f"{VMM}say(unused())").stdout == "[3301]\n"


def test_a_release_by_the_exporter_leaves_the_memory_of_the_importer(container: Container) -> None:
    code = GIVES + "say(cuda.cuMemRelease(h), unused()); sys.stdin.readline()"
    with exporter(container, code) as (process, number):
        imports = f"""{VMM}{SHARE}
h = take(file_of({process.pid}, {number})); map_at(0x10000000, 1000, h); v, own = create(500)
say(unused()); sys.stdin.readline(); say(unmap(0x10000000, 1000), cuda.cuMemRelease(h), unused())
"""
        with container.start(imports) as importer:
            assert answers(importer, 1) == [[2801]]
            process.communicate("\n\n")
            assert used(container) == 500
            assert importer.communicate("\n")[0] == "[0, 0, 3801]\n"


def test_memory_of_a_killed_exporter_is_not_charged(container: Container) -> None:
    with exporter(container, GIVES) as (process, number):
        imports = f"""{VMM}{SHARE}
h = take(file_of({process.pid}, {number})); map_at(0x10000000, 1000, h); v, own = create(500)
say(unused()); sys.stdin.readline(); say(unused(), unmap(0x10000000, 1000), cuda.cuMemRelease(h), unused())
"""
        with container.start(imports) as importer:
            assert answers(importer, 1) == [[2801]]
            process.kill()
            process.wait()
            assert importer.communicate("\n")[0] == "[3801, 0, 0, 3801]\n"


def test_a_handle_imported_by_its_exporter_counts_again(container: Container) -> None:
    code = f"""{VMM}{SHARE}
v, h = create(1000); again = take(give(h))
say(again.value == h.value, cuda.cuMemRelease(h), unused())
say(cuda.cuMemRelease(again), unused())
"""
    assert container.python(code).stdout == "[true, 0, 3301]\n[0, 4301]\n"


def test_memory_opened_by_a_handle_of_another_process_is_charged_once(container: Container) -> None:
    with exporter(container, GIVES_IPC) as (process, text):
        code = f"""{IPC}
v, at = open_memory({text!r})
say(v, unused(), free(at) != 0, unused(), alloc(3302)[0])
say(cuda.cuIpcCloseMemHandle(at), unused())
"""
        assert container.python(code).stdout == "[0, 3301, true, 3301, 2]\n[0, 3301]\n"
        assert used(container) == 1000
        process.communicate("\n")
    assert container.python(f"{IPC}say(unused())").stdout == "[4301]\n"
