"""Requirements of tests for the machine."""

from collections.abc import Iterator

import pytest

from tests.support import needs


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    needs.missing.cache_clear()
    yield
    needs.missing.cache_clear()


def test_a_missing_program_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert needs.missing("arm64-emulator") == "there is no qemu-aarch64 (apt-get install qemu-user)"
    assert "missing: " in needs.missing("kubelet")
    assert "images cannot be built here" in needs.missing("images")
    assert "hosts with systemd cannot run here" in needs.missing("hosts")


def test_the_machine_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = needs.missing("compiler")
    monkeypatch.setenv("PATH", "/nowhere")
    assert needs.missing("compiler") == found


def test_an_unknown_need_is_an_error() -> None:
    with pytest.raises(KeyError, match="kubelt"):
        needs.missing("kubelt")
