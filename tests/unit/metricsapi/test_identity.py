"""Authentication of requests, and their users."""

import json
from dataclasses import replace

import pytest

from gpushare.adapters.kube.reviews import Caller
from gpushare.errors import InvalidRequest
from gpushare.metricsapi.identity import FrontProxy, caller_of, front_proxy_of

DATA = {
    "client-ca-file": "OTHER",
    "requestheader-client-ca-file": "PEM",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}
FRONT = front_proxy_of(DATA)
HPA = b"system:serviceaccount:kube-system:horizontal-pod-autoscaler"


def test_the_config_map_is_read() -> None:
    assert (
        FrontProxy(
            "PEM",
            frozenset({"front-proxy-client"}),
            ("x-remote-user",),
            ("x-remote-uid",),
            ("x-remote-group",),
            ("x-remote-extra-",),
        )
        == FRONT
    )


def test_a_config_map_of_an_older_api_server_has_no_header_for_uids() -> None:
    assert front_proxy_of({k: v for k, v in DATA.items() if "uid" not in k}).uid == ()


def test_without_an_aggregation_layer_the_error_has_the_remedy() -> None:
    with pytest.raises(InvalidRequest, match=r"no aggregation layer.*--requestheader-\*"):
        front_proxy_of({"client-ca-file": "OTHER"})


@pytest.mark.parametrize("text", ["front-proxy-client", "{}", "[1]"])
def test_a_config_map_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(
        InvalidRequest, match="extension-apiserver-authentication: requestheader-allowed-names"
    ):
        front_proxy_of({**DATA, "requestheader-allowed-names": text})


def test_the_caller_is_the_user_that_the_front_proxy_names() -> None:
    headers = {
        b"x-remote-user": HPA,
        b"x-remote-uid": b"7",
        b"x-remote-group": b"system:serviceaccounts\nsystem:authenticated\na,b",
        b"x-remote-extra-example.com%2fscope": b"one\ntwo",
        b"accept": b"*/*",
    }
    assert caller_of("front-proxy-client", headers, FRONT) == Caller(
        HPA.decode(),
        "7",
        ("system:serviceaccounts", "system:authenticated", "a,b"),
        (("example.com/scope", ("one", "two")),),
    )


def test_a_known_caller_is_authenticated() -> None:
    def groups(user: bytes, *reported: bytes) -> tuple[str, ...]:
        caller = caller_of(
            "front-proxy-client", {b"x-remote-user": user, b"x-remote-group": b"\n".join(reported)}, FRONT
        )
        assert isinstance(caller, Caller)
        return caller.groups

    assert groups(b"system:aggregator") == ("system:authenticated",)
    assert groups(b"system:anonymous", b"system:unauthenticated") == ("system:unauthenticated",)
    assert groups(b"system:anonymous") == ()


@pytest.mark.parametrize(
    ("peer", "headers", "reason"),
    [
        ("", {b"x-remote-user": b"admin"}, "no client certificate"),
        ("other-client", {b"x-remote-user": b"admin"}, "'other-client' is not that of the front proxy"),
        ("front-proxy-client", {}, "names no user"),
        ("front-proxy-client", {b"x-remote-user": b""}, "names no user"),
    ],
)
def test_an_unknown_caller_gets_the_reason(peer: str, headers: dict[bytes, bytes], reason: str) -> None:
    assert reason in str(caller_of(peer, headers, FRONT))


def test_without_allowed_names_any_certificate_of_the_ca_is_accepted() -> None:
    any_name = replace(FRONT, allowed=frozenset())
    assert isinstance(caller_of("other-client", {b"x-remote-user": b"admin"}, any_name), Caller)
    assert isinstance(caller_of("", {b"x-remote-user": b"admin"}, any_name), str)


def test_headers_are_lists_of_names() -> None:
    front = front_proxy_of({**DATA, "requestheader-username-headers": json.dumps(["X-A", "X-Remote-User"])})
    caller = caller_of("front-proxy-client", {b"x-remote-user": b"second", b"x-a": b"first"}, front)
    assert isinstance(caller, Caller)
    assert caller.user == "first"
