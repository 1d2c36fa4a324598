"""A fake kubelet: runs kube-scheduler with the command of its static pod, and restarts it.

It creates no container, so the pod's mounts are files of the host. The host has no YAML parser; only the list
of the command is parsed.
"""

import subprocess
import time
from pathlib import Path

MANIFEST = Path("/etc/kubernetes/manifests/kube-scheduler.yaml")
LOG = Path("/var/log/pods/kube-system_kube-scheduler-standin/kube-scheduler/0.log")


def words(text: str) -> list[str]:
    """Return the command of the container."""
    found: list[str] = []
    for line in text.partition("command:\n")[2].splitlines():
        dash, _, word = line.strip().partition(" ")
        if dash != "-" or ":" in word.partition("=")[0]:
            break
        found.append(word.strip("'"))
    return found


def main() -> None:
    """Poll the manifest; restart a program that has ended after a second."""
    text, child = "", None
    while True:
        wanted = MANIFEST.read_text()
        if child and (wanted != text or child.poll() is not None):
            child.terminate()
            child.wait()
            child = None
            time.sleep(1)
        if child is None:
            text = wanted
            with LOG.open("a") as log:
                child = subprocess.Popen(words(text), stdout=log, stderr=log)  # noqa: S603 - the command of the manifest
        time.sleep(0.2)


main()
