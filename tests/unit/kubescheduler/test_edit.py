"""The engine on a fake host; see ``tests/process/cli/test_scheduler_manifest.py`` for real processes."""

import json

import pytest

from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import ExtenderConfig
from gpushare.kubescheduler.edit import EditTimeouts, Probe, perform
from gpushare.kubescheduler.host import HostFile
from gpushare.kubescheduler.plan import BACKUP, MANIFEST, Install, Paths, changes, mounted_tls, plan
from tests.support.builders import kubeadm
from tests.support.fakes.control_plane import FakeHost

ORIGINAL = kubeadm.scheduler("1.36")
CONFIG = "/etc/kubernetes/gpushare/scheduler-config.json"
JOURNAL = Paths().journal
TIMEOUTS = EditTimeouts(10, 1)
INSTALL = Install(ExtenderConfig())


def host(manifest: str = ORIGINAL) -> FakeHost:
    return FakeHost({MANIFEST: HostFile(manifest, 0o600)})


def run(on: FakeHost, install: Install | None = INSTALL, probe: Probe | None = None) -> None:
    perform(on, plan(on, Paths(), install), probe, TIMEOUTS)


def only_without_us(manifest: str) -> bool:
    return CONFIG not in manifest


def test_the_journal_is_written_first_and_the_manifest_last() -> None:
    on = host()
    run(on)
    assert on.writes == [JOURNAL, BACKUP, CONFIG, MANIFEST, JOURNAL]
    assert on.files[BACKUP] == HostFile(ORIGINAL, 0o600)
    assert on.reports[-1] == "kube-scheduler is healthy"


def test_a_second_run_changes_nothing() -> None:
    on = host()
    run(on)
    on.writes.clear()
    run(on)
    assert on.writes == []


def test_removal_restores_every_byte_and_needs_no_backup_afterwards() -> None:
    on = host()
    run(on)
    run(on, None)
    assert on.files == {MANIFEST: HostFile(ORIGINAL, 0o600)}


def test_a_backup_with_another_text_stays() -> None:
    on = host()
    on.files[BACKUP] = HostFile(f"{ORIGINAL}# other\n", 0o600)
    run(on, None)
    assert BACKUP in on.files


def test_comments_of_a_manifest_that_needs_no_change_stay() -> None:
    on = host()
    run(on)
    commented = HostFile(f"# mine\n{on.files[MANIFEST].text}", 0o600)
    on.files[MANIFEST] = commented
    run(on)
    assert on.files[MANIFEST] == commented


def test_a_scheduler_that_ends_each_time_is_undone_with_its_log() -> None:
    on = host()
    on.works = only_without_us
    with pytest.raises(
        ConfigError, match=r"is healthy again: .* it has ended \d times; its log: cannot read"
    ):
        run(on)
    assert on.files[MANIFEST].text == ORIGINAL
    assert set(on.files) == {MANIFEST, BACKUP}


def test_a_scheduler_that_is_not_healthy_before_the_edit_is_not_edited() -> None:
    on = host()
    on.works = lambda _: False
    with pytest.raises(ConfigError, match="nothing was changed: kube-scheduler is not healthy"):
        run(on)
    assert on.writes == []


@pytest.mark.parametrize(("before_s", "said"), [(0, "nothing was changed"), (None, "is healthy again")])
def test_an_extender_that_does_not_answer_leaves_the_manifest_as_it_was(
    before_s: float | None, said: str
) -> None:
    on = host()
    with pytest.raises(ConfigError, match=f"{said}: the extender does not answer this node \\(dead\\)"):
        run(on, probe=Probe(lambda: "dead", before_s, 1))
    assert on.files[MANIFEST].text == ORIGINAL


@pytest.mark.parametrize("path", [BACKUP, CONFIG, MANIFEST])
def test_an_interrupted_edit_is_undone(path: str) -> None:
    on = host()
    on.fails_at = path
    with pytest.raises(KeyboardInterrupt):
        run(on)
    assert on.files[MANIFEST].text == ORIGINAL
    assert JOURNAL not in on.files


def test_the_next_run_undoes_the_edit_of_a_killed_one() -> None:
    on = host()
    run(on)
    edited = on.files[MANIFEST].text
    journal = {"manifest": ORIGINAL, "config_file": "", "config": "", "written": edited, "processes": []}
    on.files[JOURNAL] = HostFile(json.dumps(journal), 0o600)
    with pytest.raises(ConfigError, match="is healthy again: the extender does not answer"):
        run(on, probe=Probe(lambda: "dead", None, 1))
    assert on.files[MANIFEST].text == ORIGINAL
    assert JOURNAL not in on.files


def test_changes_are_shown_without_the_text_of_certificates() -> None:
    on = host()
    shown = list(changes(on, plan(on, Paths(), INSTALL._replace(copies={"/key": "secret"}))))
    assert [each.path for each in shown] == [CONFIG, BACKUP, MANIFEST, "/key"]
    assert (shown[-1].before, shown[-1].after) == (None, None)


def test_a_tls_file_that_is_not_in_the_pod_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"/etc/ssl/ca\.crt is not in /etc/kubernetes/gpushare"):
        mounted_tls("/etc/ssl/ca.crt", None, None, None)


def test_a_backup_that_the_kubelet_would_run_is_refused() -> None:
    paths = Paths(backup="/etc/kubernetes/manifests/kube-scheduler.ori.yaml")
    with pytest.raises(ConfigError, match="is in the folder of static pods"):
        plan(host(), paths, INSTALL)


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ("[", "is not YAML"),
        ("- a", "is not a mapping"),
        ("kind: Pod", "is not a static pod: metadata is not a mapping"),
        ("metadata: {name: a}\nspec: {containers: 3}", "is not a static pod: spec.containers is not a list"),
        (
            "metadata: {name: a}\nspec: {containers: [{ports: [{containerPort: x}]}]}",
            r"spec.containers\[0\].ports\[0\].containerPort is 'x'",
        ),
    ],
)
def test_an_invalid_manifest_is_refused_with_the_field(manifest: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"{MANIFEST} {problem}|{problem}"):
        plan(host(manifest), Paths(), INSTALL)


def test_texts_that_look_like_dates_numbers_or_booleans_keep_their_meaning_for_the_kubelet() -> None:
    annotations = 'annotations: {day: 2024-01-01, time: 12:30, answer: "Y", size: "1e3", mode: 0o17}\n'
    on = host(ORIGINAL.replace("metadata:\n", f"metadata:\n  {annotations}", 1))
    run(on)
    written = on.files[MANIFEST].text
    for text in ("day: '2024-01-01'", "time: '12:30'", "answer: 'Y'", "size: '1e3'", "mode: 15"):
        assert text.replace("'", '"') in written.replace("'", '"')
