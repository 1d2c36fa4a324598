from pathlib import Path

import pytest

from gpushare.mpsd.control import backoff_s, clients_of, environment, is_alive, pids_in, quit_within


def test_a_daemon_sees_one_gpu_and_has_its_own_pipes_and_logs() -> None:
    found = environment({"PATH": "/bin"}, Path("/run/gpushare-mps"), "GPU-1")
    assert found == {
        "PATH": "/bin",
        "CUDA_VISIBLE_DEVICES": "GPU-1",
        "CUDA_MPS_PIPE_DIRECTORY": "/run/gpushare-mps/GPU-1/pipe",
        "CUDA_MPS_LOG_DIRECTORY": "/run/gpushare-mps/GPU-1/log",
    }


def test_cuda_variables_are_not_inherited() -> None:
    found = environment({"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "10", "CUDA_MODULE": "x"}, Path("/s"), "GPU-1")
    assert set(found) == {"CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"}


def test_the_commands_are_those_of_the_manual_page() -> None:
    assert (clients_of(7), quit_within(10)) == ("get_client_list 7", "quit -t 10")


@pytest.mark.parametrize(
    ("answer", "alive"), [("100.0\n", True), ("50", True), ("", False), ("Cannot find", False)]
)
def test_a_daemon_that_answers_with_a_number_is_alive(answer: str, *, alive: bool) -> None:
    assert is_alive(answer) is alive


def test_pids_are_the_numbers_of_a_list() -> None:
    assert pids_in("12\n345\n") == (12, 345)
    assert pids_in("") == ()
    assert pids_in("Server 12 not found") == (12,)


def test_the_backoff_between_starts_grows_up_to_a_minute() -> None:
    assert [backoff_s(failures) for failures in (0, 1, 2, 3, 6, 7, 5000)] == [0, 1, 2, 4, 32, 60, 60]
