# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""A text file of a host and its permissions.

Runs on the target: Python 2.7 to 3.x.
"""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import errno
import io
import os
import stat


def read(path):
    """Return (text, permissions such as "0644"), or None if there is no such file.

    Raises OSError or IOError with the path, and ValueError for a file that is not UTF-8.
    """
    try:
        with io.open(path, "rb") as file:
            content, mode = file.read(), os.fstat(file.fileno()).st_mode
    except (IOError, OSError) as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = "{0} is not UTF-8 text: {1}".format(path, error)
    else:
        return text, "{0:04o}".format(stat.S_IMODE(mode))
    raise ValueError(problem)


def draft(path, text, mode):
    """Write a text beside a file, and return the path of the draft, which is on disk.

    Its name begins with a dot, so programs that read all files of a folder skip it.
    """
    folder, name = os.path.split(path)
    new = os.path.join(folder, ".{0}.draft".format(name))
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())
    return new
