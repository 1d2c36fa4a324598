"""Opens the page in a browser without the token on its command line, which every user of the machine sees."""

import atexit
import webbrowser
from html import escape
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

_REDIRECT: Final = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>gpushare</title>
<a href="{url}">gpushare board</a>
"""


def open_page(url: str) -> None:
    """Opens a file that only this user can read and that redirects to the URL; it is removed at exit."""
    with NamedTemporaryFile("w", prefix="gpushare-board-", suffix=".html", delete=False) as file:
        file.write(_REDIRECT.format(url=escape(url)))
    path = Path(file.name)
    atexit.register(path.unlink, missing_ok=True)
    webbrowser.open(path.as_uri())
