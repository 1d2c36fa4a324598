"""``kubectl gpushare limits``: from the exporters' pages to tables, documents and reasons."""

import json
from pathlib import Path

import pytest
import yaml

from gpushare.contract import LABEL_CGPU, LABEL_MODE, LABEL_NO_ISOLATION
from tests.support.builders.api_objects import Json, literal, node, pod, share
from tests.unit.cli.fakes import Api, call, documented, kubeconfig, refused, shown

MIB = 2**20
HELD = {LABEL_MODE: "cgpu"}


def series(name: str, where: str, amount: int | str, *, node: str = "n1", card: str = "0") -> str:
    namespace, name_of_pod = where.split("/")
    labels = {
        "node": node,
        "namespace": namespace,
        "pod": name_of_pod,
        "container": "main",
        "card": card,
        "uuid": f"GPU-{card}",
    }
    reported = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"gpushare_container_memory_{name}{{{reported}}} {amount}\n"


def page(*lines: str) -> str:
    return "".join(['gpushare_exporter_source_up{source="nvml"} 1\n', *lines])


def held(where: str, node: str = "n1") -> str:
    """A container that uses 1000 of 4308 MiB; 1200 MiB as counted by the driver."""
    return "".join(
        [
            series("limit_bytes", where, 4308 * MIB, node=node),
            series("counted_bytes", where, 1000 * MIB, node=node),
            series("counted_peak_bytes", where, 3000 * MIB, node=node),
            series("refusals_total", where, 7, node=node),
            series("refused_bytes", where, 6144 * MIB, node=node),
            series("needed_bytes", where, 6265 * MIB, node=node),
            series("used_bytes", where, 1200 * MIB, node=node),
            series("uncounted_bytes", where, 200 * MIB, node=node),
        ]
    )


FREE = series("used_bytes", "ml/free", 5 * MIB)
"""What the driver says of a container that is not held."""


async def test_every_limited_container_has_a_row(api: Api) -> None:
    api.exporters = {"n1": page(held("ml/b"), FREE), "n2": page(held("ml/a", "n2"))}
    shown = literal(
        """
        NAMESPACE  POD  CONTAINER  NODE  GPU  LIMIT     USED      PEAK      REFUSALS  REFUSED
        ml         a    main       n2    0    4308 MiB  1000 MiB  3000 MiB  7         6144 MiB
        ml         b    main       n1    0    4308 MiB  1000 MiB  3000 MiB  7         6144 MiB
        """
    )
    assert await call(api, "limits", "-A") == (0, shown, "")
    note = "No resources found in {} namespace.\n"
    assert await call(api, "limits", "-n", "other") == (0, "", note.format("other"))
    assert await call(api, "limits") == (0, "", note.format("default"))
    assert len((await call(api, "limits", "-A", "--node", "n2"))[1].splitlines()) == 2


async def test_pods_without_limits_have_one_line_for_each_reason(api: Api) -> None:
    api.nodes = [node("n1", share(14), labels=HELD), node("n2", share(14))]
    names = [("a", "n1"), ("b", "n2"), ("c", "n2")]
    api.pods = [*(pod(name, on, 4, namespace="ml") for name, on in names), pod("cpu", "n2")]
    api.exporters = {"n1": page(held("ml/a"))}
    code, out, err = await call(api, "limits", "-A")
    assert (code, len(out.splitlines())) == (0, 2)
    assert err == (
        "2 pods have no limits (ml/b, ml/c): node n2 shares without isolation: its mode is share; "
        "ack.node.gpu.schedule=cgpu limits new pods\n"
    )
    assert "No resources found" not in (await call(api, "limits", "b", "-A"))[2]


async def test_wide_has_the_values_of_the_driver(api: Api) -> None:
    api.exporters = {"n1": page(held("ml/a"))}
    _, out, _ = await call(api, "limits", "-A", "-o", "wide")
    header, row = (line.split("  ") for line in out.splitlines())
    reported = dict(zip(filter(None, header), filter(None, row), strict=True))
    assert {key.strip(): value.strip() for key, value in list(reported.items())[-3:]} == {
        "DRIVER": "1200 MiB",
        "UNCOUNTED": "200 MiB",
        "UUID": "GPU-0",
    }


async def test_json_and_yaml_have_bytes_and_nulls(api: Api) -> None:
    api.exporters = {"n1": page(held("ml/a"), series("limit_bytes", "ml/spoilt", MIB, card="1"))}
    document = await documented(api, "limits", "-A", "-o", "json")
    assert (document["apiVersion"], document["kind"]) == ("gpushare.io/v1", "ContainerLimitList")
    full, bare = document["items"]
    assert full == {
        "namespace": "ml",
        "pod": "a",
        "container": "main",
        "node": "n1",
        "gpu": "0",
        "uuid": "GPU-0",
        "limitBytes": 4308 * MIB,
        "usedBytes": 1000 * MIB,
        "peakBytes": 3000 * MIB,
        "refusals": 7,
        "largestRefusedBytes": 6144 * MIB,
        "neededBytes": 6265 * MIB,
        "driverBytes": 1200 * MIB,
        "uncountedBytes": 200 * MIB,
    }
    assert {key for key, value in bare.items() if value is None} == {
        *("usedBytes", "peakBytes", "refusals", "largestRefusedBytes", "neededBytes"),
        *("driverBytes", "uncountedBytes"),
    }
    assert yaml.safe_load((await call(api, "limits", "-A", "-o", "yaml"))[1]) == document


@pytest.mark.parametrize("number", ["NaN", "+Inf"])
async def test_values_that_are_missing_or_not_finite_are_a_dash(api: Api, number: str) -> None:
    api.exporters = {"n1": page(series("limit_bytes", "ml/a", MIB), series("used_bytes", "ml/a", number))}
    out = await shown(api, "limits", "-A")
    assert out.splitlines()[1].split()[5:] == ["1", "MiB", "-", "-", "-", "-"]


async def test_one_pod_is_asked_of_its_own_node(api: Api) -> None:
    api.nodes = [node("n1", share(14), labels=HELD)]
    api.pods = [pod("a", "n1", 4, namespace="ml"), pod("a", "n1", 4, namespace="other")]
    api.exporters = {"n1": page(held("ml/a"), held("other/a"), held("ml/b")), "n2": None}
    out = await shown(api, "limits", "a", "-n", "ml")
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [["ml", "a"]]
    _, out, _ = await call(api, "limits", "a", "-A")
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [["ml", "a"], ["other", "a"]]


@pytest.mark.parametrize(
    ("asked", "labels", "reason"),
    [
        (pod("a", "n1"), HELD, "it does not request aliyun.com/gpu-mem"),
        (pod("a", None, 4), HELD, "it is not bound to a node"),
        (pod("a", "n1", 4, phase="Succeeded"), HELD, "it has finished"),
        (pod("a", "n1", 4), {}, "node n1 shares without isolation: its mode is share; "),
        (pod("a", "n1", 4), {LABEL_MODE: "mps"}, "the exporter of node n1 reports no limit: "),
        (
            pod("a", "n1", 4),
            {LABEL_MODE: "default"},
            "node n1: label ack.node.gpu.schedule=default means whole GPUs",
        ),
        (
            pod("a", "n1", 4),
            {**HELD, LABEL_NO_ISOLATION: "true"},
            "isolation is disabled on node n1 by its label cgpu.disable.isolation=true",
        ),
        (
            pod("a", "n1", 4),
            {LABEL_CGPU: "true"},
            "the exporter of node n1 reports no limit: ",
        ),
    ],
)
async def test_a_pod_without_limits_shows_the_reason(
    api: Api, asked: Json, labels: dict[str, str], reason: str
) -> None:
    api.nodes, api.pods, api.exporters = [node("n1", share(14), labels=labels)], [asked], {"n1": page(FREE)}
    code, out, err = await call(api, "limits", "a")
    assert (code, out) == (0, "")
    assert err.startswith(f"pod default/a has no limits: {reason}")
    assert err.count("\n") == 1
    code, out, err = await call(api, "limits", "a", "-o", "json")
    assert (code, json.loads(out)["items"]) == (0, [])
    assert reason in err


async def test_a_reason_that_needs_no_exporter_is_shown_without_one(api: Api) -> None:
    api.nodes, api.pods = [node("n1", share(14))], [pod("a", "n1", 4)]
    code, _, err = await call(api, "limits", "a")
    assert (code, "shares without isolation" in err) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "exporters", "text"),
    [
        (["x"], {}, "there is no pod x in namespace default (-A: all namespaces)"),
        (["x", "-A"], {}, "there is no pod x in any namespace"),
        (["a", "-n", "other"], {}, "there is no pod a in namespace other"),
        (["a", "-A", "--node", "n2"], {}, "there is no pod a in any namespace on node n2"),
        (["a"], {}, "no exporter runs on node n1"),
        (["a"], {"n1": None}, "exporter e-n1 on node n1: "),
        ([], {}, "no exporter runs in kube-system"),
    ],
)
async def test_unknown_values_are_an_error(
    api: Api, arguments: list[str], exporters: dict[str, str | None], text: str
) -> None:
    api.nodes, api.pods = [node("n1", share(14), labels=HELD)], [pod("a", "n1", 4)]
    api.exporters = exporters
    err = await refused(api, "limits", *arguments)
    assert err.startswith(f"Error: {text}")


async def test_a_pod_that_cannot_be_read_is_an_error(api: Api) -> None:
    api.pods = [{"metadata": {"name": "a", "namespace": "ml"}, "spec": 7}]
    code, _, err = await call(api, "limits", "a", "-A")
    assert code == 1
    assert err.startswith("Error: /api/v1/pods: an object cannot be read: ")


async def test_the_namespace_is_that_of_the_context(api: Api, tmp_path: Path) -> None:
    api.nodes, api.exporters = (
        [node("n1", share(14), labels=HELD)],
        {"n1": page(held("ml/a"), held("other/b"))},
    )
    api.kubeconfig = kubeconfig(tmp_path, api.url, namespace="ml")
    assert (await call(api, "limits"))[1].splitlines()[1].split()[:2] == ["ml", "a"]
    assert (await call(api, "limits", "-n", "other"))[1].splitlines()[1].split()[:2] == ["other", "b"]
    assert len((await call(api, "limits", "-A", "-n", "other"))[1].splitlines()) == 3
