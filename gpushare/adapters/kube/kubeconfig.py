"""The format of kubeconfig files, and which cluster and user a context selects, as in kubectl.

See https://kubernetes.io/docs/reference/config-api/kubeconfig.v1 for the fields, and
https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig for how files are merged.
What the fields mean for a connection belongs in ``credentials``.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

import msgspec
import yaml

from gpushare.adapters.kube.access import text_of
from gpushare.errors import ConfigError, cause_of
from gpushare.model.yaml_text import parse

DEFAULT_NAMESPACE: Final = "default"
"""Of a context that names none."""
Text = str | None
"""null and an empty string are the same as no field."""


class EnvVar(msgspec.Struct, frozen=True):
    """A variable of an exec plugin."""

    name: str
    value: Text = None


class ExecConfig(msgspec.Struct, frozen=True, rename="camel"):
    """A program that returns credentials."""

    api_version: str
    command: str
    args: tuple[str, ...] | None = None
    env: tuple[EnvVar, ...] | None = None
    install_hint: Text = None
    provide_cluster_info: bool | None = None
    interactive_mode: Literal["Never", "IfAvailable", "Always", ""] | None = None
    """Without a value, as IfAvailable."""


class AuthProvider(msgspec.Struct, frozen=True):
    """The predecessor of exec plugins, whose name is for an error."""

    name: str


class KubeconfigUser(msgspec.Struct, frozen=True, rename="kebab"):
    """Credentials. Fields with ``_data`` are base64 and override the paths beside them."""

    client_certificate: Text = None
    client_certificate_data: Text = None
    client_key: Text = None
    client_key_data: Text = None
    token: Text = None
    token_file: Text = msgspec.field(default=None, name="tokenFile")
    username: Text = None
    password: Text = None
    impersonate: Text = msgspec.field(default=None, name="as")
    exec: ExecConfig | None = None
    auth_provider: AuthProvider | None = None


class Extension(msgspec.Struct, frozen=True):
    """A value of any type, for other programs."""

    name: str
    extension: Any = None


class KubeconfigCluster(msgspec.Struct, frozen=True, rename="kebab"):
    """An API server, and how it is reached and verified."""

    server: Text = None
    certificate_authority: Text = None
    certificate_authority_data: Text = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: Text = None
    proxy_url: Text = None
    extensions: tuple[Extension, ...] | None = None


class _Context(msgspec.Struct, frozen=True):
    cluster: Text = None
    user: Text = None
    namespace: Text = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    value: _Context | None = msgspec.field(default=None, name="context")


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    value: KubeconfigCluster | None = msgspec.field(default=None, name="cluster")


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    value: KubeconfigUser | None = msgspec.field(default=None, name="user")


class _File(msgspec.Struct, frozen=True, rename="kebab"):
    current_context: Text = None
    contexts: tuple[_NamedContext, ...] | None = None
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Named(Protocol[T_co]):
    @property
    def name(self) -> str: ...

    @property
    def value(self) -> T_co | None: ...


@dataclass(frozen=True, slots=True)
class KubeconfigEntry(Generic[T]):
    """A cluster or user, and the file that defines it: relative paths start at its folder."""

    name: str
    value: T
    file: Path

    def path(self, relative: str) -> Path:
        """Return the absolute path of a file that the entry names."""
        return (self.file.parent / relative).absolute()


@dataclass(frozen=True, slots=True)
class Selected:
    """What a context selects. ``user`` has no credentials if the context names none."""

    context: str
    cluster: KubeconfigEntry[KubeconfigCluster]
    user: KubeconfigEntry[KubeconfigUser]
    namespace: str


def selected(paths: str, context: str | None = None) -> Selected:
    """Read the files, as in KUBECONFIG, and select a context; default: the current one.

    The first file that defines a name wins; missing files, and empty ones beside others, are skipped. Raises
    ConfigError.
    """
    where = f"kubeconfig {paths}"
    files = [(path, _parsed(path)) for path in _existing(paths)]
    name = context or next((file.current_context for _, file in files if file.current_context), None)
    if not name:
        raise ConfigError(f"{where}: no current-context (set one with `kubectl config use-context`)")
    found = _find(where, "context", name, [(path, file.contexts or ()) for path, file in files])
    where, wanted = f"{where}: context {name!r}", found.value or _Context()
    clusters = [(path, file.clusters or ()) for path, file in files]
    cluster = _find(where, "cluster", wanted.cluster or "", clusters)
    users = [(path, file.users or ()) for path, file in files]
    user = _find(where, "user", wanted.user, users) if wanted.user else KubeconfigEntry("", None, found.file)
    return Selected(
        name,
        KubeconfigEntry(cluster.name, cluster.value or KubeconfigCluster(), cluster.file),
        KubeconfigEntry(user.name, user.value or KubeconfigUser(), user.file),
        wanted.namespace or DEFAULT_NAMESPACE,
    )


def contexts(paths: str) -> tuple[str, ...]:
    """Return the names of the contexts of all files, as in KUBECONFIG, each once. Raises ConfigError."""
    files = [_parsed(path) for path in _existing(paths)]
    return tuple(dict.fromkeys(each.name for file in files for each in file.contexts or ()))


def _find(
    where: str, kind: str, name: str, files: Sequence[tuple[Path, Sequence[_Named[T]]]]
) -> "KubeconfigEntry[T | None]":
    for path, entries in files:
        found = [each for each in entries if each.name == name]
        if len(found) > 1:
            raise ConfigError(f"{where}: {kind} {name!r} is defined {len(found)} times in {path}")
        if found:
            return KubeconfigEntry(name, found[0].value, path)
    known = ", ".join(dict.fromkeys(each.name for _, entries in files for each in entries))
    raise ConfigError(f"{where}: {kind} {name!r} is not defined; {kind}s: {known or 'none'}")


def _existing(paths: str) -> list[Path]:
    existing = [Path(path) for path in paths.split(os.pathsep) if path and Path(path).exists()]
    if not existing:
        raise ConfigError(f"kubeconfig {paths}: no such file (set KUBECONFIG or --kubeconfig)")
    return [path for path in existing if not _is_empty(path)] or existing


def _is_empty(path: Path) -> bool:
    """Whether a file has no byte; a pipe may have some."""
    return path.is_file() and not path.stat().st_size


def _parsed(path: Path) -> _File:
    try:
        document = parse(text_of(path))
        return _File() if document is None else msgspec.convert(document, _File)
    except ConfigError as error:
        raise ConfigError(f"kubeconfig {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"kubeconfig {path}: is not YAML: {cause_of(error)}") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"kubeconfig {path}: is not a kubeconfig: {error}") from error
