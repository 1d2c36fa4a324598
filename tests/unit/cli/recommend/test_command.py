"""``kubectl gpushare recommend``: from pods and the exporters' pages, or Prometheus, to suggestions."""

import pytest

from tests.support.builders.api_objects import Json, literal, pod
from tests.unit.cli.fakes import Api, call, documented, refused
from tests.unit.cli.limits.test_command import MIB, held, page, series

GRANTED = series("allocated_bytes", "default/a", 4308 * MIB)
CONTROLLED = {"controller": True, "kind": "ReplicaSet", "name": "web-5d4f8c7b9"}


def replica(name: str, units: int = 4) -> Json:
    made = pod(name, "n1", units)
    made["metadata"] |= {"labels": {"pod-template-hash": "5d4f8c7b9"}, "ownerReferences": [CONTROLLED]}
    return made


async def test_a_workload_has_one_row(api: Api) -> None:
    api.pods = [replica("a"), pod("b", "n1", 4), pod("c", "n1")]
    api.exporters = {"n1": page(held("default/a"), GRANTED)}
    shown = literal(
        """
        NAMESPACE  WORKLOAD        CONTAINER  PODS  REQUEST  LIMIT     PEAK      REFUSALS  SUGGESTION     BASIS
        default    deployment/web  main       1     4 GiB    4308 MiB  3000 MiB  7         7 GiB (raise)  refused request needs 6265 MiB
        default    pod/b           main       1     4 units  -         -         -         -              no data
        Suggestion: peak + 20 % in whole units, at most the GPU; after refusals, what the refused requests need + 20 %. Without a peak there is no suggestion.
        """  # noqa: E501 - a table
    )
    assert await call(api, "recommend") == (0, shown, "")


async def test_json_has_bytes_units_and_nulls(api: Api) -> None:
    api.pods = [replica("a")]
    api.exporters = {"n1": page(held("default/a"), GRANTED)}
    found = await documented(api, "recommend", "-o", "json", "--margin", "0")
    head = (found["kind"], found["marginPercent"], found["windowSeconds"])
    assert head == ("RecommendationList", 0, None)
    assert found["items"] == [
        {
            "namespace": "default",
            "owner": {"kind": "Deployment", "name": "web"},
            "container": "main",
            "pods": 1,
            "podsWithoutData": 0,
            "unit": "GiB",
            "requestUnits": 4,
            "limitBytes": 4308 * MIB,
            "peakBytes": 3000 * MIB,
            "usedBytes": 1200 * MIB,
            "refusals": 7,
            "neededBytes": 6265 * MIB,
            "basis": "refused request",
            "suggestedUnits": 6,
            "verdict": "raise",
        }
    ]


@pytest.mark.parametrize("number", ["NaN", "+Inf"])
async def test_a_value_that_is_not_finite_is_no_data(api: Api, number: str) -> None:
    api.pods = [replica("a")]
    api.exporters = {"n1": page(GRANTED, series("counted_peak_bytes", "default/a", number))}
    found = await documented(api, "recommend", "-o", "json")
    assert found["items"][0]["peakBytes"] is None


async def test_only_the_named_workloads_are_shown(api: Api) -> None:
    api.pods = [replica("a"), pod("b", "n1", 4)]
    api.exporters = {"n1": page()}
    found = await documented(api, "recommend", "pod/b", "-o", "json")
    assert [each["owner"]["name"] for each in found["items"]] == ["b"]


async def test_what_cannot_be_changed_is_named_and_fails(api: Api) -> None:
    api.pods = [pod("b", "n1", 4)]
    refusal = [held("default/b"), series("allocated_bytes", "default/b", 4308 * MIB)]
    api.exporters = {"n1": page(*refusal)}
    code, _, err = await call(api, "recommend", "--apply", "--yes")
    fixed = "the request of a pod is fixed: delete it and create it again with aliyun.com/gpu-mem: 7"
    assert (code, err) == (1, f"pod/b in namespace default, container main is not changed: {fixed}\n")


async def test_a_namespace_without_gpu_pods_is_named(api: Api) -> None:
    api.exporters = {"n1": page()}
    assert await call(api, "recommend") == (0, "", "No resources found in default namespace.\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--window", "7 days"], "'7 days' is not a duration such as 90m, 24h, 7d or 2w"),
        (["--margin", "-1"], "-1 is not in the range 0<=x<=400"),
        (["--window", "7d"], "--window and --cluster select series in Prometheus; they need --prometheus"),
        (["--yes"], "--yes needs --apply, and --apply shows a table: leave out --output"),
        (["--apply", "-o", "json"], "--yes needs --apply, and --apply shows a table: leave out --output"),
        (["--cluster", "east"], "--window and --cluster select series in Prometheus; they need --prometheus"),
    ],
)
async def test_wrong_flags_are_wrong_usage(api: Api, arguments: list[str], text: str) -> None:
    err = await refused(api, "recommend", *arguments, code=2)
    assert text in err


async def test_an_unreachable_prometheus_is_an_error(api: Api) -> None:
    code, _, err = await call(api, "recommend", "--prometheus", "http://127.0.0.1:1")
    assert code == 1
    assert err.startswith("Error: http://127.0.0.1:1/api/v1/query: ")


@pytest.mark.parametrize("command", [["recommend"], ["report", "-A"]])
async def test_prometheus_is_asked_through_the_proxy_of_the_environment(
    api: Api, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("http_proxy", raising=False)
    monkeypatch.setenv("HTTP_PROXY", "socks5://proxy.test:1080")
    err = await refused(api, *command, "--prometheus", "http://prometheus.test")
    assert err.startswith("Error: HTTP_PROXY is not like http://host:3128")
