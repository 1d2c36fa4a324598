"""Package managers that would install everything and record names and ``allowerasing``; for tests here."""

from pathlib import Path

import pytest

# The text is the same for all tests, so that they share its archive.
_MODULE = """#!/usr/bin/python
import os
from ansible.module_utils.basic import AnsibleModule
FLAGS = ("allow_downgrade", "allowerasing", "install_weak_deps")
options = dict((name, {"type": "bool"}) for name in FLAGS)
module = AnsibleModule(dict(options, name={"type": "list"}, state={}), supports_check_mode=True)
words = module.params["name"] + ["allowerasing"] * bool(module.params["allowerasing"])
with open(os.environ["FAKE_PACKAGES"], "a") as file:
    file.write("".join(word + "\\n" for word in words))
module.exit_json(changed=True)
"""


def record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the modules dnf and yum; return the file that gets the names."""
    library, names = folder / "library", folder / "names"
    library.mkdir()
    for module in ("dnf", "yum"):
        (library / f"{module}.py").write_text(_MODULE)
    monkeypatch.setenv("FAKE_PACKAGES", str(names))
    monkeypatch.setenv("ANSIBLE_LIBRARY", str(library))
    return names
