"""``make pictures PART=demo``: runs the last scenario of the demo, and keeps a part of what it prints.

What belongs here: the choice of the commands that the README shows. What does not: the picture
(``docs/terminal.py``).
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from typing import Final

from devkit.errors import DevkitError
from release.recipe import ROOT

RECORDING: Final = ROOT / "docs/demo.txt"
SHOWN: Final = (
    "kubectl inspect cgpu",
    "kubectl gpushare explain fine-tune",
    "kubectl logs app-6g-v1-0",
    "kubectl gpushare limits",
)
"""Commands of the last scenario, in its order."""
_BLANK_LINES: Final = re.compile(r"\n{3,}")


def excerpt(output: str, commands: Iterable[str] = SHOWN) -> str:
    """Return these commands with what they printed. Raises DevkitError if the demo does not run one."""
    blocks = {block.partition("\n")[0]: block for block in re.split(r"(?m)^\$ ", output)[1:]}
    found = []
    for command in commands:
        if command not in blocks:
            raise DevkitError(f"the demo does not run: {command}")
        # What follows is the text of the demo itself, or nothing.
        printed = re.split(r"(?m)^# |^The demo has ended", blocks[command])[0]
        lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
        found.append("$ " + "\n".join(lines))
    return _BLANK_LINES.sub("\n\n", "\n\n".join(found)) + "\n"


def main() -> None:
    """Run the demo and write the recording."""
    env = {**os.environ, "DEMO": "board", "DEMO_ONCE": "1"}
    demo = [sys.executable, "-m", "testbed.demo"]
    done = subprocess.run(  # noqa: S603 - our own program
        demo, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True
    )
    RECORDING.write_text(excerpt(done.stdout))


if __name__ == "__main__":
    main()
