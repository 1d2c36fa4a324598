"""Values of flags that cannot be right are errors of usage, before anything is asked of a cluster."""

import pytest

from tests.unit.cli.fakes import Api, call

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("name", ["..", "a/b", "Team", "", "é", "a" * 64])
async def test_what_cannot_be_a_namespace_is_no_path_of_the_api(api: Api, name: str) -> None:
    code, out, err = await call(api, "explain", "pod", "-n", name)
    assert (code, out) == (2, "")
    assert f"{name!r} is not the name of a namespace, such as team-a" in err
    assert api.queries == []


@pytest.mark.parametrize("url", ["prometheus:9090", "http://host:99999", "http://[::1"])
async def test_what_cannot_be_a_url_is_named(api: Api, url: str) -> None:
    code, _, err = await call(api, "recommend", "--prometheus", url)
    assert code == 2
    assert f"{url!r} is not a URL such as http://127.0.0.1:9090" in err
