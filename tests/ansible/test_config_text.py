"""Edits of settings files: other content is kept, errors have file, line and column."""

import json
import tomllib

import pytest
import yaml

from ansible_collections.gpushare.nodes.plugins.plugin_utils.config_text import (
    ConfigTextError,
    merge,
    parse,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.lazy import lazy
from gpushare.model import yaml_text

FILE = "/etc/x/file"
COMMENTED = """\
# kept by the storage people
root = "/data/containerd" # big disk

[plugins]
  [plugins."a.b"]
    kept = [1, 2]
"""


@pytest.mark.parametrize("kind", ["json", "toml", "yaml"])
def test_without_a_change_the_text_is_identical(kind: str) -> None:
    text = {"json": '{ "a":  {"b":1} }', "toml": "a  = {b =1} # odd\n", "yaml": "a: {b:   1}\n"}[kind]
    assert merge(text, {"a": {"b": 1}}, kind, FILE) == text


@pytest.mark.parametrize("kind", ["json", "toml", "yaml"])
@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_file_gets_the_settings(kind: str, text: str) -> None:
    written = merge(text, {"a": {"b": "c"}, "n": 1, "l": ["x"]}, kind, FILE)
    assert parse(written, kind, FILE) == {"a": {"b": "c"}, "n": 1, "l": ["x"]}


def test_json_keeps_the_users_keys_their_order_and_the_indentation() -> None:
    user = {"log-opts": {"max-size": "10m"}, "bip": "10.1.0.1/16", "live-restore": True, "x": 1.5}
    written = merge(json.dumps(user, indent=4), {"default-runtime": "nvidia"}, "json", FILE)
    assert list(json.loads(written).items()) == [*user.items(), ("default-runtime", "nvidia")]
    assert '\n    "bip"' in written


def test_toml_keeps_comments_and_tables() -> None:
    written = merge(
        COMMENTED, {"version": 2, "plugins": {"a.b": {"more": True}, "c": {"d": {"e": 1}}}}, "toml", FILE
    )
    assert "# kept by the storage people" in written
    assert "# big disk" in written
    assert tomllib.loads(written) == {
        "root": "/data/containerd",
        "version": 2,
        "plugins": {"a.b": {"kept": [1, 2], "more": True}, "c": {"d": {"e": 1}}},
    }


@pytest.mark.parametrize(
    "text",
    [
        "a.b.c = 1\na.b.d = 2\n[z]\ny = 1\n",
        '[a.b]\nc = 1\n[z]\ny = 1\n[a.x]\nq = "out of order"\n',
        "a = {b = {c = 1}}\nz = 1\n",
        "[[list]]\nn = 1\n[[list]]\nn = 2\n[a]\n[a.b]\n",
    ],
)
def test_toml_of_every_form_gets_the_settings(text: str) -> None:
    before = tomllib.loads(text)
    after = tomllib.loads(
        merge(text, {"a": {"b": {"new": "x", "deep": {"er": True}}}, "top": 1}, "toml", FILE)
    )
    assert after["a"]["b"] == {**before["a"]["b"], "new": "x", "deep": {"er": True}}
    assert after["top"] == 1
    assert {key: after[key] for key in before if key != "a"} == {
        key: value for key, value in before.items() if key != "a"
    }


def test_yaml_keeps_the_order_of_keys() -> None:
    written = merge("kind: K\napiVersion: v1\n", {"cpuManagerPolicy": "none"}, "yaml", FILE)
    assert list(yaml.safe_load(written)) == ["kind", "apiVersion", "cpuManagerPolicy"]


def test_yaml_is_read_and_written_as_by_the_kubelet() -> None:
    text = "day: 2024-13-45\ntime: 12:30\nanswer: 'Y'\nsize: '1e3'\nfailSwapOn: n\ntext: é\n"
    written = merge(text, {"new": 1}, "yaml", FILE)
    assert parse(text, "yaml", FILE)["failSwapOn"] is False
    assert "text: é\n" in written
    assert yaml_text.parse(written) == {**yaml_text.parse(text), "new": 1}


@pytest.mark.parametrize("kind", ["json", "toml", "yaml"])
def test_none_removes_a_key_and_ignores_a_missing_one(kind: str) -> None:
    text = {"json": '{"a": 1, "b": 2}', "toml": "a = 1\nb = 2\n", "yaml": "a: 1\nb: 2\n"}[kind]
    assert parse(merge(text, {"a": None}, kind, FILE), kind, FILE) == {"b": 2}
    assert merge(text, {"absent": None}, kind, FILE) == text


@pytest.mark.parametrize(
    ("kind", "text", "place"),
    [
        ("json", '{\n  "a": 1,\n  "b" 2\n}', ":3:7: "),
        ("toml", "a = 1\nb = = 2\n", ":2:"),
        ("toml", "a = 1\na = 2\n", ":"),
        ("yaml", "a: 1\nb: [\n", ":3:1: "),
    ],
)
def test_an_invalid_file_is_reported_with_line_and_column(kind: str, text: str, place: str) -> None:
    with pytest.raises(ConfigTextError, match=f"^{FILE}{place}"):
        merge(text, {"a": 1}, kind, FILE)


@pytest.mark.parametrize(("kind", "text"), [("json", "[1]"), ("yaml", "- 1\n"), ("yaml", "words\n")])
def test_a_file_without_a_table_at_the_top_level_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ConfigTextError, match="a table of settings is required"):
        parse(text, kind, FILE)


def test_a_plain_value_instead_of_a_table_is_reported() -> None:
    with pytest.raises(ConfigTextError, match=r"runtimes\.nvidia is 'x', not a table"):
        merge('{"runtimes": {"nvidia": "x"}}', {"runtimes": {"nvidia": {"path": "y"}}}, "json", FILE)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigTextError, match="'ini' is not a format: use one of json, toml, yaml"):
        parse("a", "ini", FILE)


class Unsafe(str):
    """Like the strings of ansible-core 2.16 for text from hosts."""

    __slots__ = ()

    def __str__(self) -> str:
        return self


@pytest.mark.parametrize("kind", ["json", "toml", "yaml"])
def test_strings_of_ansible_are_written_as_plain_strings(kind: str) -> None:
    changes = {"a": {Unsafe("b"): [Unsafe("c")]}}
    written = lazy("config_text", "merge", plain=True)("", changes, kind, "f")
    assert parse(written, kind, "f") == {"a": {"b": ["c"]}}
