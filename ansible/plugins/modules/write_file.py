#!/usr/bin/python
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Replaces a text file: record, backup, validation, and the file itself, in one call."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: write_file
short_description: Replace a settings file of another program
version_added: 0.1.0
description:
  - Replaces the file atomically if its text differs. The new text is on disk before it has the name of the
    file. A link to the file stays one.
  - P(ansible.builtin.copy#module) writes no record, and in check mode fails without the folder of the file.
options:
  path:
    description: The file.
    type: path
    required: true
  content:
    description: Its text.
    type: str
    required: true
  mode:
    description: Its permissions. By default those of the present file, C(0644) without one.
    type: str
  folder_mode:
    description: Permissions of a missing folder.
    type: str
    default: "0755"
  record:
    description:
      - A file that is written before, so that the run after an interrupted one knows of the change. It is in
        C(/run), if a reboot completes the change.
    type: path
  backup:
    description: Whether to keep the present file beside it, with the time in its name.
    type: bool
    default: false
  validate:
    description: A command that fails for an invalid file, with C(%s) for its path. Empty means none.
    type: str
    default: ""
attributes:
  check_mode:
    description: Writes and validates nothing.
    support: full
  diff_mode:
    description: Shows the change.
    support: full
author:
  - The gpushare authors
"""

EXAMPLES = r"""
- name: Change the settings of Docker
  gpushare.nodes.write_file:
    path: /etc/docker/daemon.json
    content: "{{ settings }}"
    record: /run/gpushare-container-runtime.restart
    backup: true
    validate: dockerd --validate --config-file %s
"""

RETURN = r"""
backup_file:
  description: The kept file.
  returned: if there is one
  type: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.text.converters import to_text

from ansible_collections.gpushare.nodes.plugins.module_utils.text_files import draft, read

_MODE = "0644"


def check(module, new, command):
    """Fail if the command fails for the new file."""
    if "%s" not in command:
        module.fail_json(msg="validate must contain %s: {0}".format(command))
    code, output, errors = module.run_command(command % new)
    if code:
        problem = " ".join((errors or output).split())
        module.fail_json(msg="the new {0} is not valid: {1}".format(module.params["path"], problem))


def place(module, new, path):
    """Give the draft the name of the file."""
    if os.path.exists(path):
        # It keeps owner and SELinux label.
        module.atomic_move(new, path)
    else:
        # atomic_move would make a new file readable for all for a moment.
        os.rename(new, path)
        module.set_default_selinux_context(path, changed=False)


def write(module, path, content, mode):
    """Validate and write the file. Returns the path of the backup, None without one."""
    params = module.params
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        os.makedirs(folder, int(params["folder_mode"], 8))
    new = draft(path, content, int(mode, 8))
    module.add_cleanup_file(new)
    if params["validate"]:
        check(module, new, params["validate"])
    if params["record"]:
        text = u"{0} changed\n".format(to_text(params["path"]))
        place(module, draft(params["record"], text, int(_MODE, 8)), params["record"])
    kept = module.backup_local(path) if params["backup"] and os.path.exists(path) else None
    place(module, new, path)
    module.set_mode_if_different(path, mode, changed=True)
    return kept


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "content": {"type": "str", "required": True},
            "mode": {"type": "str"},
            "folder_mode": {"type": "str", "default": "0755"},
            "record": {"type": "path"},
            "backup": {"type": "bool", "default": False},
            "validate": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    params = module.params
    path, content = os.path.realpath(params["path"]), to_text(params["content"])
    result = {}
    try:
        present = read(path)
        if present and present[0] == content:
            module.exit_json(changed=False)
        text, mode = present or (u"", _MODE)
        if not module.check_mode:
            kept = write(module, path, content, params["mode"] or mode)
            result = {"backup_file": kept} if kept else {}
    except (IOError, OSError, ValueError) as error:
        module.fail_json(msg="cannot write {0}: {1}".format(params["path"], error))
    if module._diff:  # noqa: SLF001 - as modules of Ansible do; without it, no result has the text of a key
        names = {"before_header": params["path"], "after_header": params["path"]}
        result["diff"] = dict(before=text, after=content, **names)
    module.exit_json(changed=True, **result)


if __name__ == "__main__":
    main()
