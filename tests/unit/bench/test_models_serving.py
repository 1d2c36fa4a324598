"""The trace of the model benchmark is fixed, and its servers answer each client in a closed loop."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.bench.models.serving import Served, serve
from tests.bench.models.shapes import SHAPES, needed_mib
from tests.bench.models.trace import LENGTH, OUTPUT, PROMPT, Request, rotated, trace


class Counted:
    """A FAKE engine on a clock: a prompt takes 10 s, a token of all slots 1 s; remembers its calls."""

    def __init__(self, slots: int) -> None:
        self.slots, self.now = slots, 0.0
        self.prompts: list[tuple[int, int]] = []

    def prefill(self, slot: int, prompt: int) -> None:
        self.prompts.append((slot, prompt))
        self.now += 10

    def decode(self) -> None:
        self.now += 1


def served(slots: int, requests: list[Request], until_s: float) -> tuple[Counted, Served]:
    engine = Counted(slots)
    return engine, serve(engine, requests, until_s, lambda: engine.now)


def test_a_seed_gives_the_same_requests_each_time() -> None:
    assert trace(1, 3) == (Request(169, 207), Request(627, 91), Request(359, 119))
    assert trace(1, 3) == trace(1, 9)[:3]
    assert trace(1, 3) != trace(2, 3)


def test_lengths_are_within_their_bounds() -> None:
    for request in trace(1, 500):
        assert PROMPT[0] <= request.prompt <= PROMPT[1]
        assert OUTPUT[0] <= request.output <= OUTPUT[1]
        assert sum(request) <= LENGTH


def test_servers_get_the_same_requests_from_different_ones_on() -> None:
    requests = trace(1, 4)
    assert rotated(requests, 0, 2) == requests
    assert rotated(requests, 1, 2) == (*requests[2:], *requests[:2])


def test_a_client_sends_its_next_request_when_it_has_the_answer() -> None:
    engine, found = served(1, [Request(7, 3), Request(9, 1)], 33)
    assert engine.prompts == [(0, 7), (0, 9), (0, 7)]
    assert found.firsts == [(0, 10), (12, 22), (22, 32)]
    assert found.tokens == [(10, 1), (11, 1), (12, 1), (22, 1), (32, 1), (33, 1)]


def test_a_prompt_waits_for_those_before_it() -> None:
    _, found = served(2, [Request(7, 3)], 22)
    assert found.firsts == [(0, 10), (0, 20)]
    assert found.tokens == [(10, 1), (20, 1), (21, 2), (22, 2)]


@given(st.integers(1, 5), st.lists(st.builds(Request, st.integers(1, 9), st.integers(1, 9)), min_size=1))
def test_every_answer_has_as_many_tokens_as_its_request(slots: int, requests: list[Request]) -> None:
    engine, found = served(slots, requests, 300)
    order = [requests[at % len(requests)] for at in range(len(engine.prompts))]
    assert [prompt for _, prompt in engine.prompts] == [request.prompt for request in order]
    for slot in range(slots):
        own = [at for at, (of, _) in enumerate(engine.prompts) if of == slot]
        for at, following in pairwise(own):
            begun, sent = found.firsts[at][1], found.firsts[following][0]
            steps = sum(begun < end <= sent and count == slots for end, count in decoded(found))
            assert steps == order[at].output - 1


def decoded(found: Served) -> list[tuple[float, int]]:
    firsts = {first for _, first in found.firsts}
    return [(end, count) for end, count in found.tokens if end not in firsts]


def test_the_default_model_is_one_of_four_billion_parameters_and_fits_twice_into_80_gb() -> None:
    assert SHAPES["qwen3-4b"].parameters == 4_022_272_000
    assert 7672 < needed_mib(SHAPES["qwen3-4b"], 8, LENGTH) < 81079 // 2
