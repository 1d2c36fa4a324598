"""The service account of the pod: found, missing with the reason, and its token renewed."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gpushare.adapters.kube.access import ApiAccess
from gpushare.adapters.kube.service_account import from_service_account
from gpushare.errors import ConfigError


@dataclass
class Account:
    """The folder of a service account that works, and a clock that stands still until it is moved."""

    folder: Path
    now: float = 1000.0

    def access(self, host: str = "10.0.0.1") -> ApiAccess:
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
        return from_service_account(environ, self.folder, lambda: self.now)

    def spoil(self, name: str, content: bytes | None) -> None:
        (self.folder / name).unlink()
        if content is not None:
            (self.folder / name).write_bytes(content)


@pytest.fixture
def account(tmp_path: Path) -> Account:
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "ca.crt").write_text("some certificate")
    return Account(tmp_path)


SPOILT = [
    (b"", "is empty"),
    (b"\n", "is empty"),
    (b"\xff\xfe", "is not text: byte 0 is not UTF-8"),
    (None, "No such file"),
]


async def test_the_files_and_variables_of_a_pod_are_enough(account: Account) -> None:
    access = account.access()
    assert (access.host, access.ca) == ("https://10.0.0.1:443", account.folder / "ca.crt")
    assert access.verify
    assert await access.authorization() == "Bearer first"


def test_an_ipv6_address_is_in_brackets(account: Account) -> None:
    assert account.access("fd00::1").host == "https://[fd00::1]:443"


@pytest.mark.parametrize(("content", "reason"), SPOILT)
@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_a_file_that_cannot_be_read_is_an_error(
    account: Account, name: str, content: bytes | None, reason: str
) -> None:
    account.spoil(name, content)
    with pytest.raises(ConfigError, match=f"^service account of this pod: {account.folder / name}: {reason}"):
        account.access()


@pytest.mark.parametrize("environ", [{}, {"KUBERNETES_SERVICE_PORT": "443"}])
def test_no_cluster(account: Account, environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        from_service_account(environ, account.folder)
    assert str(caught.value) == (
        "no kubeconfig given and not in a cluster (KUBERNETES_SERVICE_HOST is not set); "
        "set KUBECONFIG or --kubeconfig"
    )


@pytest.mark.parametrize(("host", "port", "name"), [("", "443", "HOST"), ("10.0.0.1", "", "PORT")])
def test_half_an_address_is_an_error_of_the_pod(account: Account, host: str, port: str, name: str) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    with pytest.raises(
        ConfigError, match=f"^service account of this pod: KUBERNETES_SERVICE_{name} is not set"
    ):
        from_service_account(environ, account.folder)


async def test_a_token_is_read_again_after_a_minute_and_not_before(account: Account) -> None:
    access = account.access()
    (account.folder / "token").write_text("second")
    account.now += 59
    assert await access.authorization() == "Bearer first"
    account.now += 1
    assert await access.authorization() == "Bearer second"


@pytest.mark.parametrize(("content", "reason"), SPOILT)
async def test_the_last_good_token_stays_in_use_while_its_file_cannot_be_read(
    account: Account, content: bytes | None, reason: str
) -> None:
    access = account.access()
    account.spoil("token", content)
    with capture_logs() as logs:
        for _ in range(3):
            account.now += 60
            assert await access.authorization() == "Bearer first"
    assert [entry["event"] for entry in logs] == ["token_not_renewed"]
    assert reason in logs[0]["reason"]
    (account.folder / "token").write_text("second")
    account.now += 60
    assert await access.authorization() == "Bearer second"


async def test_each_loss_of_the_token_is_logged(account: Account) -> None:
    access = account.access()
    with capture_logs() as logs:
        for content in ("", "second", ""):
            (account.folder / "token").write_text(content)
            account.now += 60
            assert await access.authorization()
    assert [entry["event"] for entry in logs] == ["token_not_renewed"] * 2
