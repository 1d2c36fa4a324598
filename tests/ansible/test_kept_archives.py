"""Archives of modules that the runs of tests keep; ``testbed/hosts/callbacks`` has the plugin."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ansible.cores import CHECKOUT, CORES, run

MODULE = """\
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.a.b.plugins.module_utils.said import WORD
AnsibleModule({}).exit_json(msg=WORD)
"""
LOCAL = ("--connection=local", f"--extra-vars=ansible_python_interpreter={sys.executable}")
MADE, USED = "ANSIBALLZ: Creating module", "ANSIBALLZ: using cached module"


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The plugins of a collection with one module, which runs keep in the folder ``kept``."""
    folder = tmp_path / "ansible_collections/a/b/plugins"
    for name in ("modules", "module_utils"):
        (folder / name).mkdir(parents=True)
    (folder / "modules/say.py").write_text(MODULE)
    (folder / "module_utils/said.py").write_text('WORD = "first"\n')
    for name, value in {
        "ANSIBLE_CALLBACK_PLUGINS": CHECKOUT / "testbed/hosts/callbacks",
        "ANSIBLE_COLLECTIONS_PATH": tmp_path,
        "ANSIBLE_DEBUG": "1",
        "GPUSHARE_KEPT_ARCHIVES": tmp_path / "kept",
    }.items():
        monkeypatch.setenv(name, str(value))
    return folder


def say(core: str, plugins: Path, *more: dict[str, object]) -> subprocess.CompletedProcess[str]:
    tasks = [{"a.b.say": {}, "register": "said"}, {"debug": {"msg": "heard {{ said.msg }}"}}, *more]
    play = plugins / "play.json"
    play.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    done = run(core, "--inventory=localhost,", *LOCAL, play)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def sets(plugins: Path) -> list[Path]:
    return sorted((plugins.parents[3] / "kept").iterdir())


@pytest.mark.parametrize("core", CORES)
def test_the_next_run_makes_no_archive(core: str, plugins: Path) -> None:
    first, second = say(core, plugins), say(core, plugins)
    assert (MADE in first.stdout, USED in first.stdout) == (True, False)
    assert (MADE in second.stdout, USED in second.stdout) == (False, True)
    assert "heard first" in second.stdout
    assert list(sets(plugins)[0].glob("bytecode/*"))


def test_a_changed_source_has_its_own_archive(plugins: Path) -> None:
    say("2.19", plugins)
    (plugins / "module_utils/said.py").write_text('WORD = "other"\n')
    changed = say("2.19", plugins)
    assert MADE in changed.stdout
    assert "heard other" in changed.stdout
    assert len(sets(plugins)) == 2


def test_a_module_of_a_library_has_its_own_archive(plugins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = plugins.parents[3] / "library"
    library.mkdir()
    monkeypatch.setenv("ANSIBLE_LIBRARY", str(library))
    tasks: list[dict[str, object]] = [
        {"ping": {}, "register": "stub"},
        {"debug": {"msg": "stub says {{ stub.msg }}"}},
    ]
    for word in ("one", "two"):
        text = MODULE.replace("msg=WORD", f'msg="{word}"')
        (library / "ping.py").write_text(text)
        assert f"stub says {word}" in say("2.19", plugins, *tasks).stdout
    assert len(sets(plugins)) == 2


def test_no_archive_remains_of_a_run_during_which_a_source_changed(plugins: Path) -> None:
    path = plugins / "module_utils/said.py"
    say("2.19", plugins, {"copy": {"content": 'WORD = "later"\n', "dest": str(path)}})
    assert not list(sets(plugins)[0].glob("archives/*"))


def test_only_the_sets_used_last_remain(plugins: Path) -> None:
    for number in range(12):
        old = plugins.parents[3] / f"kept/{number}"
        old.mkdir(parents=True)
        os.utime(old, (number, number))
    say("2.19", plugins)
    assert {each.name for each in sets(plugins)} > {"5", "6", "7", "8", "9", "10", "11"}
    assert len(sets(plugins)) == 8


def test_without_a_folder_for_archives_a_run_is_as_usual(plugins: Path) -> None:
    (plugins.parents[3] / "kept").touch()
    assert "heard first" in say("2.19", plugins).stdout
