import pytest

from gpushare.cli.lib.missing_right import VIEWERS, refused, way_to_right
from gpushare.errors import ApiError, ConfigError


def refusal(user: str, verb: str, scope: str, resource: str = "pods") -> str:
    return (
        f'{resource} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "" {scope}'
    )


@pytest.mark.parametrize(
    ("text", "way"),
    [
        (refusal("ann", "list", "at the cluster scope", "nodes"), VIEWERS),
        (refusal("ann", "list", 'in the namespace "kube-system"'), VIEWERS),
        ("access denied by the webhook", VIEWERS),
        (
            refusal("ann", "list", 'in the namespace "team-a"'),
            (
                "An administrator of namespace team-a can grant the right: kubectl create rolebinding "
                "gpushare-view "
                "-n team-a --clusterrole=view --user=ann"
            ),
        ),
        (
            refusal("system:serviceaccount:team-a:bot", "create", 'in the namespace "team-a"'),
            (
                "An administrator of namespace team-a can grant the right: kubectl create rolebinding "
                "gpushare-edit "
                "-n team-a --clusterrole=edit --serviceaccount=team-a:bot"
            ),
        ),
        (
            refusal("a b; rm", "get", 'in the namespace "n"'),
            (
                "An administrator of namespace n can grant the right: kubectl create rolebinding "
                "gpushare-view "
                "-n n --clusterrole=view --user='a b; rm'"
            ),
        ),
    ],
)
def test_who_can_give_the_right(text: str, way: str) -> None:
    assert way_to_right(text) == way


def test_only_a_missing_right_gets_a_way() -> None:
    late = ApiError("no answer in time")
    assert refused(late) is late
    found = refused(ApiError("pods is forbidden.", status=403))
    assert isinstance(found, ConfigError)
    assert str(found) == f"pods is forbidden.\n{VIEWERS}"
