"""Objects of a cluster that a move may concern, or those of files."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from gpushare.adapters.kube.client import KubeClient
from gpushare.cli.lib.missing_right import refused, way_to_right
from gpushare.cli.migrate.manifest import Json, items
from gpushare.errors import ApiError, ConfigError, cause_of
from gpushare.overview.lists import if_allowed, listed

_KINDS: Final = (
    ("/api/v1", "nodes", "Node"),
    ("/api/v1", "pods", "Pod"),
    ("/api/v1", "resourcequotas", "ResourceQuota"),
    ("/apis/apps/v1", "daemonsets", "DaemonSet"),
    ("/apis/apps/v1", "deployments", "Deployment"),
    ("/apis/apps/v1", "replicasets", "ReplicaSet"),
    ("/apis/apps/v1", "statefulsets", "StatefulSet"),
    ("/apis/batch/v1", "cronjobs", "CronJob"),
    ("/apis/batch/v1", "jobs", "Job"),
)
_SUFFIXES: Final = (".yaml", ".yml", ".json")


async def collect(client: KubeClient, namespace: str | None) -> tuple[list[Json], dict[str, str]]:
    """Objects of a namespace or of all, and a note on each kind that may not be listed.

    Raises ApiError, and ConfigError if none may be listed.
    """
    found: list[Json] = []
    notes: dict[str, str] = {}
    for group, plural, kind in _KINDS:
        inside = f"namespaces/{quote(namespace, safe='')}/" if namespace and kind != "Node" else ""
        raws = await if_allowed(listed(client, f"{group}/{inside}{plural}"))
        if isinstance(raws, ApiError):
            notes[kind] = f"{plural} are left out: {raws}. {way_to_right(str(raws))}"
            if len(notes) == len(_KINDS):
                raise ConfigError(
                    f"you may list none of the kinds that migrate reports: {refused(raws)}"
                ) from raws
            continue
        # The objects of a list have neither.
        kinds = {"apiVersion": group.removeprefix("/apis/").removeprefix("/api/"), "kind": kind}
        found += (kinds | each for raw in raws if isinstance(each := msgspec.json.decode(raw), dict))
    return found, notes


def of_files(paths: tuple[str, ...]) -> list[Json]:
    """The objects of YAML and JSON files, and of those in folders; ``-`` is stdin. Raises ConfigError."""
    return [each for path in paths for each in (_of_stdin() if path == "-" else _of(Path(path)))]


def _of(path: Path) -> list[Json]:
    """The objects of a file or a folder, which may have other files. Raises ConfigError."""
    found = [each for file in _files(path) for each in _objects(file.read_bytes, file)]
    return _required(found, path) if path.is_file() else found


def _of_stdin() -> list[Json]:
    return _required(list(_objects(sys.stdin.buffer.read, "standard input")), "standard input")


def _required(found: list[Json], what: object) -> list[Json]:
    if not any("kind" in each for each in found):
        raise ConfigError(f"{what} has no Kubernetes objects")
    return found


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES and each.is_file())
    if not found:
        raise ConfigError(f"{path} has no files {', '.join(_SUFFIXES)}")
    yield from found


def _objects(read: Callable[[], bytes], what: object) -> Iterator[Json]:
    """The objects of what ``read`` returns, which is called ``what``."""
    import yaml

    from gpushare.model.yaml_text import parse_all

    try:
        documents = parse_all(read().decode())
    except OSError as error:
        raise ConfigError(f"cannot read {what}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{what} is not text: {cause_of(error)}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{what} is not YAML (render templates first): {cause_of(error)}") from error
    for document in documents:
        yield from _listed(document)


def _listed(document: Any) -> list[Json]:
    """The objects of a document, which may be a List; other documents have none."""
    if isinstance(document, dict) and str(document.get("kind", "")).endswith("List"):
        return items(document.get("items"))
    return items([document])
