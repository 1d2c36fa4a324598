import click

from gpushare.runtime.flags import daemon_options


def flags(*, asks_api: bool) -> set[str | None]:
    @click.command()
    @daemon_options(1234, asks_api=asks_api)
    def command() -> None:
        """A daemon."""

    return {each.name for each in command.params}


def test_only_who_asks_the_api_server_takes_a_kubeconfig() -> None:
    common = {"ops_host", "ops_port", "log_level"}
    assert flags(asks_api=True) == common | {"kubeconfig"}
    assert flags(asks_api=False) == common
