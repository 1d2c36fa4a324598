"""The keys of package repositories: those that are shipped, and which one a repository gets."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpushare.nodes.plugins.plugin_utils.signing_keys import (
    choose,
    fingerprints,
    identity,
    problem,
)
from ansible_collections.gpushare.nodes.plugins.plugin_utils.systems import (
    OTHER_KEYS,
    SYSTEMS,
    SigningKey,
)
from tools.role_docs import ROLES

FILES = ROLES / "packages/files"
KEYS = {each.key for each in SYSTEMS} | set(OTHER_KEYS.values())
SHIPPED = sorted((each for each in KEYS if each.shipped), key=lambda each: each.file)
DEBIAN_13 = "02182E60104FCDC26EAE1B8597A5D4CB8793F200"
OWN = {"repo_url": "", "key": "", "key_url": "", "fingerprint": ""}
KNOWN: dict[str, Any] = {"file": "8793F200.pub", "fingerprint": DEBIAN_13, "sha256": "", "shipped": True}
HOME = "https://nvidia/debian13/x86_64"


def text_of(file: str) -> str:
    return (FILES / file).read_text()


@pytest.mark.parametrize("key", SHIPPED, ids=lambda key: key.file)
def test_a_shipped_key_is_the_one_of_the_table(key: SigningKey) -> None:
    assert fingerprints(text_of(key.file)) == [key.fingerprint]


def test_no_other_key_is_shipped() -> None:
    assert {file.name for file in FILES.iterdir()} == {key.file for key in SHIPPED}


@pytest.mark.skipif(not shutil.which("gpg"), reason="gpg is not installed")
@pytest.mark.parametrize("key", SHIPPED, ids=lambda key: key.file)
def test_gpg_reads_the_same_fingerprint(key: SigningKey, tmp_path: Path) -> None:
    command = [
        "gpg",
        f"--homedir={tmp_path}",
        "--batch",
        "--with-colons",
        "--show-keys",
        str(FILES / key.file),
    ]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own
    primary = re.search(r"^f[p]r:+([0-9A-F]{40}):", shown, re.MULTILINE)
    assert primary
    assert primary[1] == key.fingerprint


BLOCK = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{}\n-----END PGP PUBLIC KEY BLOCK-----\n"


@pytest.mark.parametrize(
    "text", ["", "<html>", text_of("gpgkey")[:900], *map(BLOCK.format, ("", "#", "mQ", "mQA=", "iQEB"))]
)
def test_what_is_no_key_has_no_fingerprint(text: str) -> None:
    assert fingerprints(text) == []


def test_only_the_expected_key_is_accepted() -> None:
    key = {"fingerprint": DEBIAN_13, "sha256": ""}
    assert problem(text_of("8793F200.pub"), key) == ""
    assert f"instead of {DEBIAN_13}" in problem(text_of("3bf863cc.pub"), key)
    assert "no armored OpenPGP public key" in problem("404", key)


def test_a_second_key_in_the_same_file_is_refused() -> None:
    both = text_of("8793F200.pub") + text_of("3bf863cc.pub")
    assert "instead of" in problem(both, {"fingerprint": DEBIAN_13, "sha256": ""})


def test_a_digest_ignores_the_version_of_the_program() -> None:
    # As `sed '/^Version/d' | sha256sum` prints it.
    digest = "a21c1a0b18a4196fa901b833e13c4fa64f094d7d9e8a6495318e7255f0ef23d1"
    assert problem(text_of("3bf863cc.pub"), {"fingerprint": "", "sha256": digest}) == ""
    assert digest in problem(text_of("8793F200.pub"), {"fingerprint": "", "sha256": digest})


def test_a_key_that_nothing_identifies_is_named_by_its_fingerprint() -> None:
    unknown = {"fingerprint": "", "sha256": ""}
    assert identity(text_of("8793F200.pub"), unknown) == DEBIAN_13[-16:].lower()
    assert identity("", {"fingerprint": DEBIAN_13, "sha256": ""}) == DEBIAN_13[-16:].lower()


def test_nvidias_repository_has_the_shipped_key() -> None:
    chosen = choose(OWN, KNOWN, "nvidia", HOME)
    assert (chosen["file"], chosen["url"], chosen["fingerprint"]) == ("8793F200.pub", "", DEBIAN_13)


def test_a_key_that_is_not_shipped_is_beside_the_packages() -> None:
    chosen = choose(OWN, {**KNOWN, "shipped": False}, "nvidia", f"{HOME}/")
    assert (chosen["file"], chosen["url"]) == ("", f"{HOME}/8793F200.pub")
    assert chosen["fingerprint"] == DEBIAN_13


def test_a_mirror_without_a_key_has_none() -> None:
    mirror = {**OWN, "repo_url": "https://mirror"}
    assert choose(mirror, KNOWN, "nvidia", "https://mirror") == {}
    assert choose(OWN, {}, "nvidia", "https://mirror") == {}


@pytest.mark.parametrize(
    ("own", "place"),
    [
        ({"key": "nvidia"}, {"file": "8793F200.pub", "fingerprint": DEBIAN_13}),
        ({"key": "/keys/a.asc"}, {"file": "/keys/a.asc", "url": "", "fingerprint": ""}),
        ({"key_url": "https://m/k", "fingerprint": "ab cd"}, {"url": "https://m/k", "fingerprint": "ABCD"}),
    ],
)
def test_a_mirror_has_the_key_that_the_inventory_names(own: dict[str, str], place: dict[str, str]) -> None:
    chosen = choose({**OWN, "repo_url": "https://mirror", **own}, KNOWN, "nvidia", "https://mirror")
    assert chosen.items() >= place.items()
