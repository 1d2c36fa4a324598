"""The public key of a package repository: which one, and whether a text is that key. Pure.

What belongs here: the choice, and reading armored OpenPGP keys (RFC 9580). What does not: the keys of NVIDIA
(``systems``), and files on hosts (the role packages).
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_BLOCK: Final = re.compile(
    r"-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n(?:.*: .*\r?\n)*\r?\n(.*?)(?:\r?\n=.*)?\r?\n"
    r"-----END PGP PUBLIC KEY BLOCK-----",
    re.DOTALL,
)
_PUBLIC_KEY: Final = 6
_VERSION: Final = 4


def choose(own: Mapping[str, str], known: Mapping[str, Any], named: str, url: str) -> dict[str, str]:
    """Return where the key of a repository is, and what identifies it; empty if nothing says so.

    ``own`` has the options of a role: ``repo_url``, ``key``, ``key_url`` and ``fingerprint``. ``known`` is
    the key of the usual repository, as in the table of systems; ``key`` asks for it with the word ``named``.
    ``url`` is the URL of the repository. In the result, ``file`` is on the controller.
    """
    result = {"file": "", "url": "", "fingerprint": own["fingerprint"].replace(" ", "").upper(), "sha256": ""}
    if own["key_url"]:
        return {**result, "url": own["key_url"]}
    if own["key"] not in ("", named):
        return {**result, "file": own["key"]}
    if not known or (own["repo_url"] and not own["key"]):
        return {}
    place = {"file": known["file"]} if known["shipped"] else {"url": f"{url.rstrip('/')}/{known['file']}"}
    return {**result, **place, "fingerprint": known["fingerprint"], "sha256": known["sha256"]}


def problem(text: str, key: Mapping[str, str]) -> str:
    """Return why a text is not the expected key, "" if it is; ``key`` is of ``choose``."""
    found = fingerprints(text)
    if not found:
        return "it is no armored OpenPGP public key (`gpg --armor --export` writes one)"
    if key["fingerprint"] and found != [key["fingerprint"]]:
        return f"its fingerprint is {', '.join(found)} instead of {key['fingerprint']}"
    if key["sha256"] and _digest(text) != key["sha256"]:
        return f"it is another key than that with the SHA-256 digest {key['sha256']}"
    return ""


def identity(text: str, key: Mapping[str, str]) -> str:
    """Return a short name of the key, the same in each run; ``text`` is needed if nothing identifies it."""
    known = key["fingerprint"] or key["sha256"] or next(iter(fingerprints(text)), "unknown")
    return known[-16:].lower()


def fingerprints(text: str) -> list[str]:
    """Return the fingerprints of all primary keys in an armored text, [] if it has none."""
    try:
        return [each for block in _BLOCK.findall(text) for each in _fingerprints(_decoded(block))]
    except (binascii.Error, IndexError):
        return []


def _decoded(block: str) -> bytes:
    return base64.b64decode("".join(block.split()), validate=True)


def _fingerprints(packets: bytes) -> Iterator[str]:
    for tag, body in _packets(packets):
        if tag == _PUBLIC_KEY and body[0] == _VERSION:
            framed = b"\x99" + len(body).to_bytes(2, "big") + body
            yield hashlib.sha1(framed, usedforsecurity=False).hexdigest().upper()


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and body of each packet; partial lengths do not occur in keys."""
    while data:
        tag, start, size = _new(data) if data[0] & 0x40 else _old(data)
        yield tag, data[start : start + size]
        data = data[start + size :]


def _old(data: bytes) -> tuple[int, int, int]:
    width = 1 << (data[0] & 3)
    return (data[0] >> 2) & 15, 1 + width, int.from_bytes(data[1 : 1 + width], "big")


def _new(data: bytes) -> tuple[int, int, int]:
    tag, first = data[0] & 63, data[1]
    if first < 192:  # noqa: PLR2004 - lengths of one, two and five bytes
        return tag, 2, first
    if first < 255:  # noqa: PLR2004
        return tag, 3, ((first - 192) << 8) + data[2] + 192
    return tag, 6, int.from_bytes(data[2:6], "big")


def _digest(text: str) -> str:
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("Version")]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
