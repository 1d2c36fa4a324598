"""Folders, ports, locks, certificates and the history: what surrounds the components."""

import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from gpushare.errors import ApiError, ConfigError
from testbed.control_plane import audit
from testbed.control_plane.home import Home, note_of
from testbed.control_plane.pki import Authority, groups_of, kubeconfig
from testbed.errors import TestbedError
from testbed.system import ports
from testbed.system.folders import bed_folder, cache_root, data_folder
from testbed.system.locks import FileLock, exclusive
from testbed.system.waiting import together, until


@pytest.mark.parametrize(
    ("env", "root"),
    [
        ({"GPUSHARE_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/gpushare"),
        ({"HOME": "/h"}, "/h/.cache/gpushare"),
    ],
)
def test_the_cache_is_where_the_environment_says(env: dict[str, str], root: str) -> None:
    assert cache_root(env) == Path(root)


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-a", "a" * 41])
def test_a_name_that_is_no_plain_word_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a folder"):
        bed_folder(name, Path("/cache"))


def test_data_are_kept_in_memory_where_there_is_such_a_folder(tmp_path: Path) -> None:
    bed = tmp_path / "bed"
    assert data_folder(bed, tmp_path).parent == tmp_path
    assert data_folder(bed, tmp_path / "none") == bed / "data"


def test_beds_do_not_share_their_data(tmp_path: Path) -> None:
    assert data_folder(tmp_path / "a", tmp_path) != data_folder(tmp_path / "b", tmp_path)


def test_a_bed_that_is_taken_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path))
    left = tmp_path / "beds" / "one" / "left"
    left.mkdir(parents=True)
    home = Home.take("one")
    assert not left.exists()
    with pytest.raises(TestbedError, match="'one' is in use"):
        Home.take("one")
    home.release()
    assert home.folder.exists()


def test_a_bed_without_a_name_goes_with_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path))
    home = Home.take(None)
    home.release()
    assert list((tmp_path / "beds").iterdir()) == []


def test_a_start_removes_unnamed_beds_whose_owner_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path))
    abandoned = tmp_path / "beds" / "tmp-abandoned"
    abandoned.mkdir(parents=True)
    living = Home.take(None)
    assert not abandoned.exists()
    Home.take("other").release()
    assert living.folder.exists()
    living.release()


def test_a_bed_that_was_left_up_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSHARE_CACHE", str(tmp_path))
    home = Home.take("up")
    assert note_of(home.folder) is None
    home.leave_up({"kubeconfig": "/k"})
    assert note_of(home.folder) == {"kubeconfig": "/k"}


def test_ports_are_different_free_and_below_the_ephemeral_range() -> None:
    taken = set(range(10_000, 20_000, 2))
    chosen = ports.choose(20, 20_000, lambda port: port not in taken)
    assert len(set(chosen)) == 20
    assert all(10_000 <= port < 20_000 and port % 2 for port in chosen)


def test_too_few_free_ports_are_an_error() -> None:
    with pytest.raises(TestbedError, match="no 2 free ports"):
        ports.choose(2, 20_000, lambda _: False)


def test_the_ephemeral_range_is_read_from_the_kernels_text() -> None:
    assert ports.first_ephemeral("32768\t60999\n") == 32768


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.try_acquire()
    assert not second.try_acquire()
    first.release()
    assert second.try_acquire()
    second.release()


async def test_waiting_for_a_lock_ends_with_its_deadline(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    assert lock.try_acquire()
    with pytest.raises(TestbedError, match="another build has kept"):
        async with exclusive(lock.path, 0.01, "another build"):
            pass
    lock.release()


def test_a_service_account_has_its_groups_in_its_certificate() -> None:
    user = "system:serviceaccount:kube-system:gpushare-schd-extender"
    groups = groups_of(user)
    assert groups == ("system:serviceaccounts", "system:serviceaccounts:kube-system")
    subject = x509.load_pem_x509_certificate(Authority.create("ca").client(user, groups).cert).subject
    assert [each.value for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [user]
    found = {each.value for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}
    assert found == set(groups)


def test_other_users_have_no_groups_of_their_own() -> None:
    assert groups_of("jane") == ()


def test_a_name_that_no_certificate_can_hold_is_refused() -> None:
    with pytest.raises(ConfigError, match="has 65 characters"):
        Authority.create("ca").client("x" * 65)


def test_a_kubeconfig_names_its_files() -> None:
    document = json.loads(kubeconfig("https://127.0.0.1:1", Path("/ca"), Path("/crt"), Path("/key")))
    assert document["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:1",
        "certificate-authority": "/ca",
    }
    assert document["users"][0]["user"] == {"client-certificate": "/crt", "client-key": "/key"}


def test_reads_are_not_in_the_history_and_pods_are_whole() -> None:
    rules = audit.policy()["rules"]
    assert rules[0] == {"level": "None", "verbs": ["get", "list", "watch"]}
    assert rules[1]["level"] == "RequestResponse"
    assert rules[1]["resources"] == [{"group": "", "resources": ["pods", "pods/*"]}]


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    log.write_text('{"verb": "create"}\n{"verb": "pat')
    assert list(audit.read(log)) == [{"verb": "create"}]


async def test_a_wait_ends_with_the_first_truthy_answer() -> None:
    answers = iter([0, 7])

    async def ask() -> int:
        return next(answers)

    assert await until(ask, "a number", poll_s=0) == 7


async def test_a_wait_in_vain_says_what_it_saw_last() -> None:
    async def ask() -> bool:
        raise ApiError("refused", status=503)

    with pytest.raises(TestbedError, match=r"0\.02 s in vain for peace; last seen: .*refused"):
        await until(ask, "peace", timeout_s=0.02, poll_s=0.001)


async def test_the_first_of_several_errors_is_raised_as_it_is() -> None:
    async def fail() -> None:
        raise ConfigError("wrong")

    with pytest.raises(ConfigError, match="wrong"):
        await together([fail(), fail()])
