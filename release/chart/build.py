"""The files of the chart: templates and helpers, and default values with documentation. Pure.

What does not belong here: the values (``release.chart.values``), their schema (``release.chart.schema``),
the archive (``release.archives``).
"""

import ast
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

import yaml

from components import config
from components.checks_monitoring import PLACEHOLDER, advice_on
from components.manifests import everything, prometheus
from components.manifests.device_plugin import NAME as AGENT
from components.manifests.parts import Object
from components.manifests.tls import makes_certificates
from components.stack import load
from gpushare import __version__
from gpushare.contract import (
    CERTIFICATES_NAME,
    LABEL_CGPU,
    LABEL_GPUSHARE,
    LABEL_MODE,
    LABEL_NO_ISOLATION,
    RUNBOOKS_URL,
)
from gpushare.model.modes import LIMITING, SHARING, Mode
from release.chart.merge import ALWAYS, Entry, Fields, Scalar, Test, Tree, merge
from release.chart.objects import Found, chart_objects, failures
from release.chart.schema import KEYS, OWN_IMAGES, SECTIONS, camel, schema
from release.chart.template import Language, Writer, checks
from release.chart.values import GROUPS, IMAGES, OLDEST, image_marker, slots

NAME: Final = "gpushare"
DEFAULTS: Final[Mapping[str, Any]] = {
    "kubernetesVersion": "1.36",
    "extender": {},
    "devicePlugins": [{}],
    "isolation": {},
    "monitoring": {},
}
"""The stack of ``install.yaml`` and of the chart without values, except for the images."""
_REQUIRED: Final[Mapping[type[Any], Mapping[str, str]]] = {
    config.Scheduler: {"image": ""},
    config.Board: {"tls_secret": ""},
}
"""Fields without a default, which are empty in the chart."""
_NO_SETTING: Final = "Whether to deploy it."
_SPEC: Final = "@certificates.spec@"
_JOB: Final = "@certificates.name@"
_SPEC_TEMPLATE: Final = "gpushare.certificates"
_DIGEST: Final = f'(include "{_SPEC_TEMPLATE}" . | fromYaml | toJson | sha256sum | trunc 8)'
_JOB_NAME: Final = f'printf "{CERTIFICATES_NAME}-%s" {_DIGEST}'
_HELPERS: Final = """\
{{- /* The image with the host of the mirror, if there is one; arguments: the root, the image. */ -}}
{{- define "gpushare.image" -}}
{{- $registry := (index . 0).Values.registry -}}
{{- $image := index . 1 -}}
{{- $parts := splitList "/" $image -}}
{{- $host := first $parts -}}
{{- $is_host := or (contains "." $host) (contains ":" $host) (eq $host "localhost") -}}
{{- if not $registry -}}{{ $image }}
{{- else if and $is_host (gt (len $parts) 1) -}}{{ $registry }}/{{ rest $parts | join "/" }}
{{- else -}}{{ $registry }}/{{ $image }}
{{- end -}}
{{- end -}}
{{- /* An amount of CPU or memory as a number, to compare two. */ -}}
{{- define "gpushare.millicores" -}}
{{- if hasSuffix "m" . }}{{ trimSuffix "m" . }}{{ else }}{{ mulf . 1000 }}{{ end -}}
{{- end -}}
{{- define "gpushare.kibibytes" -}}
{{- $unit := trunc -2 . -}}
{{- mul (trimSuffix $unit .) (get (dict "Ki" 1 "Mi" 1024 "Gi" 1048576) $unit) -}}
{{- end -}}
"""
_CHECKS: Final = """\
{{- $selector := .Values.devicePlugin.nodeSelector }}
{{- $labels := list }}
{{- range $key := list "@gpushare@" "@older@" "@mode@" }}
{{- if hasKey $selector $key }}
{{- $labels = append $labels (printf "%s=%s" $key (get $selector $key)) }}
{{- end }}
{{- end }}
{{- if gt (len $labels) 1 }}
{{- fail (printf "devicePlugin.nodeSelector: two mode labels, %s; keep one, and set the others to null" \
(join " and " $labels)) }}
{{- end }}
{{- $older := ternary "@cgpu@" "@share@" (eq (get $selector "@older@") "true") }}
{{- $mode := get $selector "@mode@" | default $older }}
{{- $not := "so the node agent would not serve these nodes" }}
{{- if not (has $mode (list @sharing@)) }}
{{- fail (printf "devicePlugin.nodeSelector: @mode@=%s, %s" $mode $not) }}
{{- end }}
{{- range $key := list "@gpushare@" "@older@" }}
{{- if and (not (get $selector "@mode@")) (eq (get $selector $key) "false") }}
{{- fail (printf "devicePlugin.nodeSelector: %s=false, %s" $key $not) }}
{{- end }}
{{- end }}
{{- $limits := and (has $mode (list @limiting@)) (ne (get $selector "@off@") "true") }}
{{- if and $limits (not .Values.isolation.enabled) }}
{{- fail "isolation.enabled: false, but devicePlugin.nodeSelector selects nodes that enforce limits; \
set it to true, or also select @off@=true" }}
{{- end }}
{{- if and (eq $mode "@mps@") (not .Values.mps.enabled) }}
{{- fail "mps.enabled: false, but devicePlugin.nodeSelector selects nodes of mode @mps@; set it to true" }}
{{- end }}
{{- $less := "extender.scheduler.%sLimit: '%s' is less than extender.scheduler.%s, '%s'" }}
{{- $cpu := .Values.extender.scheduler.cpu }}
{{- $limit := .Values.extender.scheduler.cpuLimit }}
{{- if lt (include "gpushare.millicores" $limit | float64) (include "gpushare.millicores" $cpu | float64) }}
{{- fail (printf $less "cpu" $limit "cpu" $cpu) }}
{{- end }}
{{- $memory := .Values.extender.scheduler.memory }}
{{- $limit := .Values.extender.scheduler.memoryLimit }}
{{- if lt (include "gpushare.kibibytes" $limit | int64) (include "gpushare.kibibytes" $memory | int64) }}
{{- fail (printf $less "memory" $limit "memory" $memory) }}
{{- end }}
{{- if and .Values.extender.scheduler.image (ne .Values.extender.exposure "sidecar") }}
{{- fail (printf "extender.scheduler: not allowed with exposure %s; use sidecar" .Values.extender.exposure) }}
{{- end }}
"""
"""Combinations with values that only the template knows; those of choices are found by the builders."""
_NOTES: Final = """\
gpushare {{ .Chart.AppVersion }} is deployed.

1. Label the nodes that share their GPUs: kubectl label node <node> \
{{ range $key, $value := .Values.devicePlugin.nodeSelector }}{{ $key }}={{ $value }} {{ end }}
{{- if eq .Values.extender.exposure "sidecar" }}
2. The scheduler gpushare-scheduler runs beside the extender; nothing else is to be configured.
{{- else }}
2. Configure kube-scheduler to call the extender: gpushare scheduler-config, or the Ansible role
   scheduler_extender.
{{- end }}
3. Pods request GPU memory with a limit of aliyun.com/gpu-mem, and kubectl inspect gpushare shows it.
"""
_WARNING: Final = """\
{{- if and .Values.monitoring.enabled (contains "@placeholder@" .Values.monitoring.runbooks) }}

Warning: @advice@
{{- end }}
"""


def chart(images: Mapping[str, str]) -> dict[str, str]:
    """Return the files of the chart by name; ``images`` are the defaults of its images."""
    files = {
        "Chart.yaml": _yaml(_about()),
        "values.yaml": _commented(default_values(images)),
        "values.schema.json": json.dumps(schema(), indent=2) + "\n",
        "templates/NOTES.txt": _NOTES + _warning(),
    }
    objects = chart_objects()
    slots = _slots(objects)
    languages = {
        name: Language([each.tests for each in choices], slots, merge({("",): _tolerations()}))
        for name, choices in GROUPS.items()
    }
    helpers = [_HELPERS]
    for each in objects:
        writer = _writer(languages[each.group], each)
        tree = each.tree
        if (each.kind, each.name) == ("Job", CERTIFICATES_NAME):
            tree, spec = _with_digest(each)
            helpers.append(_definition(writer, spec))
        files[f"templates/{writer.name}.yaml"] = writer.document(tree, each.test)
        files |= writer.files
    by_group: dict[str, list[tuple[Test, str]]] = {}
    for group, test, text in failures():
        by_group.setdefault(group, []).append((test, text))
    files["templates/checks.yaml"] = (
        "".join(checks(languages[name], found) for name, found in by_group.items()) + _checks_of_nodes()
    )
    files["templates/_helpers.tpl"] = "\n".join(helpers)
    return files


def _checks_of_nodes() -> str:
    """As ``components.checks``, for one pool of nodes."""
    words = {
        "mode": LABEL_MODE,
        "older": LABEL_CGPU,
        "gpushare": LABEL_GPUSHARE,
        "off": LABEL_NO_ISOLATION,
        "cgpu": Mode.CGPU,
        "share": Mode.SHARE,
        "mps": Mode.MPS,
        "sharing": " ".join(f'"{mode}"' for mode in Mode if mode in SHARING),
        "limiting": " ".join(f'"{mode}"' for mode in Mode if mode in LIMITING),
    }
    text = _CHECKS
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


def _warning() -> str:
    """That of ``pulumi preview``, in the notes."""
    (advice,) = advice_on(config.Monitoring())
    advice = advice.replace(RUNBOOKS_URL, "{{ .Values.monitoring.runbooks }}")
    return _WARNING.replace("@placeholder@", PLACEHOLDER).replace("@advice@", advice)


def _tolerations() -> list[Object]:
    """The default of all pods on nodes with GPUs: that of the node agents."""
    objects = everything(load({**DEFAULTS, "images": {name: image_marker(name) for name in IMAGES}}))
    (agent,) = (each for each in objects if each["metadata"]["name"] == AGENT)
    found: list[Object] = json.loads(json.dumps(agent["spec"]["template"]["spec"]["tolerations"]))
    return found


def default_values(images: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the chart with their defaults, which are those of a stack."""
    extender, exporter = _values(config.Extender), _values(config.Exporter)
    scheduler = {"image": ""} | _values(config.Scheduler)
    return {
        "images": {name: images[name] for name in IMAGES},
        "registry": "",
        "imagePullSecrets": [],
        "admission": True,
        "tolerations": _tolerations(),
        "extender": {**extender, "scheduler": scheduler},
        "devicePlugin": _values(config.DevicePlugin),
        "isolation": {"enabled": "isolation" in DEFAULTS} | _values(config.Isolation),
        "mps": {"enabled": "mps" in DEFAULTS} | _values(config.Mps),
        "monitoring": {
            "enabled": "monitoring" in DEFAULTS,
            **_values(config.Monitoring),
            "exporter": exporter,
            "board": _values(config.Board),
            "prometheus": {"image": ""} | _values(config.Prometheus),
        },
    }


def _values(kind: type[Any]) -> dict[str, Any]:
    made = kind(**_REQUIRED.get(kind, {}))
    return {camel(key): _plain(kind, key, getattr(made, key)) for key in KEYS[kind]}


def _plain(kind: type[Any], key: str, value: Any) -> Any:
    if (kind, key) == (config.Extender, "tls"):
        return str(config.Tls.STACK if makes_certificates(config.Extender()) else config.Tls.NONE)
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    return "" if value is None else value


def _commented(values: Mapping[str, Any], path: str = "", depth: int = 0) -> str:
    """The values as YAML, each with the documentation of its field in ``components.config``."""
    documented = _documentation(SECTIONS[path]) | _OWN | {"image": OWN_IMAGES.get(path, "")}
    lines = [] if depth else ["# Values of the chart gpushare. Kubernetes 1.30 or later."]
    for key, value in values.items():
        inside = f"{path}.{key}" if path else key
        lines += [f"# {documented[key]}"] if key in documented else []
        if inside in SECTIONS:
            lines += [f"{key}:", _commented(value, inside, depth + 1).rstrip("\n")]
        else:
            lines.append(_yaml({key: value}).rstrip("\n"))
    text = "\n".join(lines) + "\n"
    return "".join(f"  {line}\n" for line in text.splitlines()) if depth else text


_OWN: Final = {
    "enabled": _NO_SETTING,
    "images": "Images with digests.",
    "tolerations": "Tolerations of the pods on nodes with GPUs.",
    "devicePlugin": "The node agent.",
    "nodeSelector": "Labels of its nodes, one of them a mode label; gpushare: null removes the default.",
}


def _documentation(kind: type[Any]) -> dict[str, str]:
    tree = ast.parse(inspect.getsource(kind)).body[0]
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    names = {each.name for each in fields(kind)}
    return {
        camel(name): " ".join(ast.literal_eval(text.value).replace("``", "").split())
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
        if (name := ast.unparse(field.target)) in names
    }


def _about() -> Object:
    return {
        "apiVersion": "v2",
        "name": NAME,
        "description": "GPU sharing for Kubernetes: several pods share one NVIDIA GPU",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": f">={OLDEST}.0-0",
        "keywords": ["gpu", "nvidia", "scheduler", "device-plugin"],
        "annotations": {"artifacthub.io/license": "Apache-2.0"},
    }


def _slots(objects: Sequence[Found]) -> dict[str, str]:
    own = slots() | {_SPEC: f'(include "{_SPEC_TEMPLATE}" . | fromYaml)', _JOB: _JOB_NAME}
    (files,) = (each for each in objects if (each.kind, each.name) == ("ConfigMap", prometheus.NAME))
    return own | _digest_of(files, Language([], own))


def _digest_of(files: Found, language: Language) -> dict[str, str]:
    """The digest of the files of Prometheus, by which its pod is replaced: with the values in them."""
    data = {each.key: each.value for each in _fields_of(files.tree)}["data"]
    texts = [str(each.value.value) for each in _fields_of(data) if isinstance(each.value, Scalar)]
    written = " ".join(f"({_writer(language, files).long_text(each)})" for each in texts)
    digest = prometheus.digest(texts)
    return {digest: f"print {written} | sha256sum | trunc {len(digest)}"}


def _writer(language: Language, found: Found) -> Writer:
    return Writer(language, f"{found.kind}-{found.name}".lower())


def _with_digest(found: Found) -> tuple[Tree, Tree]:
    """The Job with a name from its content and a reference to its content; and that content."""
    entries = {each.key: each for each in _fields_of(found.tree)}
    metadata = [
        Entry(each.test, each.key, Scalar(_JOB)) if each.key == "name" else each
        for each in _fields_of(entries["metadata"].value)
    ]
    changed = {
        "metadata": Fields(tuple(metadata)),
        "spec": Fields((Entry(ALWAYS, _SPEC, Scalar("")),)),
    }
    own = tuple(Entry(each.test, key, changed.get(key, each.value)) for key, each in entries.items())
    return Fields(own), entries["spec"].value


def _fields_of(tree: Tree) -> tuple[Entry, ...]:
    if not isinstance(tree, Fields):
        raise TypeError(f"{tree} is not a mapping")
    return tree.entries


def _definition(writer: Writer, spec: Tree) -> str:
    return "\n".join([f'{{{{- define "{_SPEC_TEMPLATE}" -}}}}', *writer.block(spec, 0), "{{- end -}}", ""])


def _yaml(value: Object) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=1000)
