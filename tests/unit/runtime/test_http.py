"""Responses as bytes."""

import re

from gpushare.runtime.http import Response, head_of, text_response


def test_a_head_has_status_date_length_and_type() -> None:
    head = head_of(Response(b"{}"), last=False).decode()
    date = r"date: (Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"
    pattern = rf"HTTP/1\.1 200 OK\r\n{date}\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n"
    assert re.fullmatch(pattern, head)


def test_the_last_response_closes_the_connection() -> None:
    assert head_of(Response(b""), last=True).endswith(b"\r\nconnection: close\r\n\r\n")


def test_further_headers_and_other_states() -> None:
    head = head_of(text_response("no", 405, ("allow", "POST")), last=False)
    assert head.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert b"\r\nallow: POST\r\n" in head
    assert b"\r\ncontent-type: text/plain; charset=utf-8\r\n" in head


def test_an_answer_without_a_type_names_none() -> None:
    assert b"content-type" not in head_of(Response(b"", 301, ""), last=False)
