"""What a move finds: installations, nodes and workloads of the Aliyun pair, of ACK and of HAMi. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from gpushare.adapters.kube.wire import WirePod, pod_of
from gpushare.cli.migrate import ack, hami
from gpushare.cli.migrate.manifest import (
    Json,
    cleaned,
    containers,
    controller,
    is_finished,
    is_workload,
    mapping,
    name_of,
    resources,
    template,
)
from gpushare.contract import (
    LABEL_CGPU,
    LABEL_GPUSHARE,
    LABEL_MODE,
    RESOURCE_MEM,
    RESOURCE_TIME_SLICED_GPU,
    RESOURCE_WHOLE_GPU,
)
from gpushare.model.demand import NO_WHOLE_GPUS, Malformed
from gpushare.model.modes import Mode
from gpushare.model.resource_names import meant

_ALIYUN_IMAGES: Final = ("k8s-gpushare-plugin", "k8s-gpushare-schd-extender")
_HAMI_IMAGES: Final = ("projecthami/hami", "/hami:")


class System(StrEnum):
    """From where."""

    ALIYUN = "Aliyun gpushare"
    ACK = "ACK (ack-cgpu, ack-ai-installer)"
    HAMI = "HAMi"


class FindingEffect(StrEnum):
    """What becomes of it."""

    STAYS = "stays"
    CHANGES = "changes"
    UNSUPPORTED = "not supported"


@dataclass(frozen=True, slots=True)
class MigrationFinding:
    """One object, and what becomes of it."""

    system: System
    subject: str
    verdict: FindingEffect
    text: str


@dataclass(frozen=True, slots=True)
class Migration:
    """All findings, the converted manifests, and the objects that could not be converted."""

    findings: tuple[MigrationFinding, ...]
    manifests: tuple[Json, ...]
    refused: tuple[str, ...]


def migration(objects: Iterable[Json], units: hami.Units) -> Migration:
    """The findings in the order of the objects; what a known workload creates is left out."""
    read = list(objects)
    has_hami, has_ack = any(map(_of_hami, read)), any(map(_of_ack, read))
    found: list[MigrationFinding] = []
    manifests: list[Json] = []
    refused: list[str] = []
    for each in read:
        pod = template(each)
        found += _placed_by_ack(each)
        if (owner := controller(each)) or pod is None:
            found += _of_other(each, owner)
            continue
        found += _installation(each)
        if is_finished(each):
            continue
        found += _aliyun_workload(each, pod)
        found += _of_several_containers(each, pod) if has_ack else ()
        result = _without_hami(each, pod, units, has_hami=has_hami)
        if result is None:
            continue
        found += _hami_workload(each, result)
        if result.manifest is None:
            refused.append(name_of(each))
        elif result.changes or result.unsupported:
            manifests.append(cleaned(result.manifest))
    return Migration(tuple(dict.fromkeys(found)), tuple(manifests), tuple(refused))


def _of_other(manifest: Json, owner: Json | None) -> Iterator[MigrationFinding]:
    """A node, what another object creates, or a kind without a pod template."""
    if manifest.get("kind") == "Node":
        yield from _node(manifest)
    elif hami.names_shares(manifest) and not (owner and is_workload(str(owner.get("kind")))):
        meta = mapping(manifest.get("metadata"))
        maker = (
            {"kind": owner.get("kind"), "metadata": {**meta, "name": owner.get("name")}} if owner else None
        )
        text = "its kind is not converted: change the resources of HAMi in it by hand"
        yield MigrationFinding(System.HAMI, name_of(maker or manifest), FindingEffect.UNSUPPORTED, text)


def _without_hami(manifest: Json, pod: Json, units: hami.Units, *, has_hami: bool) -> hami.Conversion | None:
    """The workload as it runs without HAMi; None if it has nothing to do with HAMi."""
    if hami.uses_shares(pod):
        return _checked(hami.converted(manifest, units))
    if hami.names_scheduler(pod) or (has_hami and hami.uses_whole_gpus(pod)):
        return hami.released(manifest)
    return None


def _checked(result: hami.Conversion) -> hami.Conversion:
    """No manifest if it would not be placed."""
    problem = _problem(template(result.manifest) or {}) if result.manifest else None
    return hami.Conversion(None, unsupported=[*result.unsupported, problem]) if problem else result


def _images(manifest: Json) -> Iterator[str]:
    return (str(each.get("image", "")) for _, each in containers(template(manifest) or {}))


def _of_hami(manifest: Json) -> bool:
    return any(part in image for image in _images(manifest) for part in _HAMI_IMAGES)


def _of_ack(manifest: Json) -> bool:
    return bool(ack.installation(manifest) or ack.placed(manifest))


def _placed_by_ack(manifest: Json) -> Iterator[MigrationFinding]:
    if not is_finished(manifest) and (text := ack.placed(manifest)):
        yield MigrationFinding(System.ACK, name_of(manifest), FindingEffect.CHANGES, text)


def _of_several_containers(manifest: Json, pod: Json) -> Iterator[MigrationFinding]:
    if text := ack.several_containers(pod):
        yield MigrationFinding(System.ACK, name_of(manifest), FindingEffect.CHANGES, text)


def _installation(manifest: Json) -> Iterator[MigrationFinding]:
    name = name_of(manifest)
    if any(part in image for image in _images(manifest) for part in _ALIYUN_IMAGES):
        text = "replaced in place: gpushare has the same name and flags, or adopts it (gpushare:adopt)"
        yield MigrationFinding(System.ALIYUN, name, FindingEffect.CHANGES, text)
    elif text := ack.installation(manifest):
        yield MigrationFinding(System.ACK, name, FindingEffect.CHANGES, text)
    if _of_hami(manifest):
        yield MigrationFinding(
            System.HAMI,
            name,
            FindingEffect.CHANGES,
            "remove it from a node before gpushare shares the GPUs of the node: two device plugins would "
            "allocate the same GPU twice",
        )


def _node(manifest: Json) -> Iterator[MigrationFinding]:
    meta = mapping(manifest.get("metadata"))
    labels = mapping(meta.get("labels"))
    for key in (LABEL_GPUSHARE, LABEL_CGPU):
        if labels.get(key) == "true":
            yield MigrationFinding(System.ALIYUN, name_of(manifest), FindingEffect.STAYS, f"label {key}=true")
    for text in ack.node(manifest):
        yield MigrationFinding(System.ACK, name_of(manifest), FindingEffect.STAYS, text)
    if any(str(key).startswith(hami.PREFIX) for key in mapping(meta.get("annotations"))):
        yield MigrationFinding(
            System.HAMI,
            name_of(manifest),
            FindingEffect.CHANGES,
            f"drain it, remove HAMi's label ({'='.join(hami.NODE_LABEL)}), "
            f"label it {LABEL_MODE}={Mode.CGPU}, or {Mode.CORE_MEM} for compute shares",
        )


def _aliyun_workload(manifest: Json, pod: Json) -> Iterator[MigrationFinding]:
    name = name_of(manifest)
    misspelt = list(_misspelt(pod))
    yield from (MigrationFinding(System.ALIYUN, name, FindingEffect.UNSUPPORTED, text) for text in misspelt)
    if not any(RESOURCE_MEM in resources(each) for _, each in containers(pod)):
        return
    problems = [*_whole_beside_units(pod)] or [*filter(None, [_problem(pod)])]
    yield from (MigrationFinding(System.ALIYUN, name, FindingEffect.UNSUPPORTED, text) for text in problems)
    if not (problems or misspelt):
        text = f"its {RESOURCE_MEM} means the same"
        yield MigrationFinding(System.ALIYUN, name, FindingEffect.STAYS, text)


def _misspelt(pod: Json) -> Iterator[str]:
    """What resources that resemble ours were meant to be; those of HAMi are converted."""
    for where, container in containers(pod):
        for name, amount in resources(container).items():
            if not str(name).startswith(hami.DOMAIN) and (hint := meant(str(name), amount)):
                yield f"{where}: {hint}"


def _whole_beside_units(pod: Json) -> Iterator[str]:
    """Which whole GPUs must go from a pod with units: no node offers both."""
    for where, container in containers(pod):
        for name in (RESOURCE_WHOLE_GPU, RESOURCE_TIME_SLICED_GPU):
            if name in resources(container) and not hami.uses_shares(pod):
                yield f"{where}: remove {name}: {NO_WHOLE_GPUS}"


def _problem(pod: Json) -> str | None:
    """Why a pod could not be placed as it is; None if it can."""
    try:
        demand = pod_of(msgspec.convert({**pod, "metadata": mapping(pod.get("metadata"))}, WirePod))
    except msgspec.ValidationError as error:
        return str(error)
    if demand is None:
        return f"{RESOURCE_MEM} is not under limits"
    if isinstance(demand.demand, Malformed):
        return demand.demand.problem
    return demand.demand.suffix_hint if demand.demand.has_suffix else None


def _hami_workload(manifest: Json, result: hami.Conversion) -> Iterator[MigrationFinding]:
    name = name_of(manifest)
    yield from (MigrationFinding(System.HAMI, name, FindingEffect.CHANGES, text) for text in result.changes)
    yield from (
        MigrationFinding(System.HAMI, name, FindingEffect.UNSUPPORTED, text) for text in result.unsupported
    )
    if not (result.changes or result.unsupported):
        text = f"whole GPUs ({RESOURCE_WHOLE_GPU}), on a node that does not share"
        yield MigrationFinding(System.HAMI, name, FindingEffect.STAYS, text)


def counts(findings: Sequence[MigrationFinding]) -> dict[FindingEffect, int]:
    """The number of findings by verdict."""
    return {verdict: sum(each.verdict is verdict for each in findings) for verdict in FindingEffect}
