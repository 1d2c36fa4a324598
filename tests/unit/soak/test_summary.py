"""The summary of a soak as a table."""

from tests.soak.summary import Summary


def test_a_summary_is_a_table_with_the_most_frequent_first() -> None:
    summary = Summary(
        seed=18,
        minutes=0.5,
        seconds=70,
        actions={"kill": 1, "create": 9},
        created=9,
        ran={"simulated": 6, "real": 2},
        finished={},
        replaced={},
        exits={},
        recounts={"real": 100, "cgroup v2": 7},
        longest_recovery_s=6.51,
    )
    lines = summary.markdown().splitlines()
    assert "| actions | 9 create, 1 kill |" in lines
    assert "| pods created again | 0 |" in lines
    assert "| recounts of the running containers | 100 real, 7 cgroup v2 |" in lines
    assert "| longest recovery | 6.5 s |" in lines
