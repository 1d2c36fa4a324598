"""Adds the extender to an existing configuration of kube-scheduler.

What does not belong here: new configurations (``kubescheduler.config``).
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from gpushare.contract import EXTENDER_PREFIX
from gpushare.errors import ConfigError
from gpushare.kubescheduler.config import (
    API_VERSIONS,
    FULL_SAMPLE,
    GROUP,
    KIND,
    ExtenderConfig,
    extender_entry,
)


def merged(document: Mapping[str, object], extender: ExtenderConfig) -> dict[str, object]:
    """The existing configuration with exactly one entry for the extender.

    Everything else stays unchanged, also other extenders. Raises ConfigError if the document does not support
    extenders, or has another extender that binds: kube-scheduler allows only one.
    """
    api = str(document.get("apiVersion", "")).removeprefix(GROUP)
    policy = document.get("kind") == "Policy"
    known = [name for _, name in API_VERSIONS]
    if not policy and (document.get("kind") != KIND or api not in known):
        raise ConfigError(
            f"{document.get('kind')} {document.get('apiVersion')} does not support extenders; "
            f"use a {KIND} of {', '.join(known)}"
        )
    others = [each for each in _entries(document) if not _is_ours(each)]
    for each in others:
        if each.get("bindVerb"):
            raise ConfigError(
                f"extender {each.get('urlPrefix')} also binds, and kube-scheduler allows only one to bind"
            )
    entry = extender_entry(extender, legacy=policy or api == "v1alpha2")
    sampling = {} if policy else {"percentageOfNodesToScore": FULL_SAMPLE}
    return {**sampling, **document, "extenders": [*others, entry]}


def _entries(document: Mapping[str, object]) -> list[Mapping[str, object]]:
    entries = document.get("extenders") or []
    if not isinstance(entries, list) or not all(isinstance(each, Mapping) for each in entries):
        raise ConfigError("extenders is not a list of mappings")
    return entries


def _is_ours(entry: Mapping[str, object]) -> bool:
    return urlsplit(str(entry.get("urlPrefix", ""))).path.rstrip("/") == EXTENDER_PREFIX
