from pathlib import Path

import pytest

from gpushare.mpsd.control import clients_of, end_within, environment, is_alive, pause_s, pids_in


def test_a_daemon_sees_its_card_alone_and_has_pipes_and_logs_of_its_own() -> None:
    found = environment({"PATH": "/bin"}, Path("/run/gpushare-mps"), "GPU-1")
    assert found == {
        "PATH": "/bin",
        "CUDA_VISIBLE_DEVICES": "GPU-1",
        "CUDA_MPS_PIPE_DIRECTORY": "/run/gpushare-mps/GPU-1/pipe",
        "CUDA_MPS_LOG_DIRECTORY": "/run/gpushare-mps/GPU-1/log",
    }


def test_what_would_limit_all_clients_is_not_inherited() -> None:
    found = environment({"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "10", "CUDA_MODULE": "x"}, Path("/s"), "GPU-1")
    assert set(found) == {"CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"}


def test_the_commands_are_those_of_the_manual_page() -> None:
    assert (clients_of(7), end_within(10)) == ("get_client_list 7", "quit -t 10")


@pytest.mark.parametrize(
    ("answer", "alive"), [("100.0\n", True), ("50", True), ("", False), ("Cannot find", False)]
)
def test_a_daemon_is_alive_that_answers_with_a_number(answer: str, *, alive: bool) -> None:
    assert is_alive(answer) is alive


def test_a_list_of_processes_is_numbers_and_nothing_else() -> None:
    assert pids_in("12\n345\n") == (12, 345)
    assert pids_in("") == ()
    assert pids_in("Server 12 not found") == (12,)


def test_pauses_between_starts_grow_up_to_a_minute() -> None:
    assert [pause_s(failures) for failures in (0, 1, 2, 3, 6, 7, 5000)] == [0, 1, 2, 4, 32, 60, 60]
