from dataclasses import replace

from gpushare.deviceplugin.core.allocations import Allocation, Allocations, Key
from gpushare.deviceplugin.core.decision import Granted, unmatched, with_grant
from gpushare.deviceplugin.core.interface import Rejected
from gpushare.deviceplugin.core.reconcile import ServedContainer, join, marked, retained
from gpushare.isolation.layout import IsolationMounts
from gpushare.isolation.limits import parse
from gpushare.model.demand import demand_of
from gpushare.model.modes import Mode
from tests.support.builders import demand, init, main, sound
from tests.support.gpu_pods import allocations, asked, cards, gpu_pod, served, with_gpu_pods

NOBODY: frozenset[Key] = frozenset()


def granted(node: Allocations, amount: int, lead: str = "lead", done: frozenset[Key] = NOBODY) -> Allocation:
    decision = asked(node, amount, lead, done)
    assert isinstance(decision, Granted), decision
    return decision.grant


def refused(node: Allocations, amount: int, lead: str = "lead") -> Rejected:
    decision = asked(node, amount, lead)
    assert isinstance(decision, Rejected), decision
    return decision


def test_a_pod_gets_the_card_it_was_promised() -> None:
    grant = granted(with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=1)), 4)
    assert grant.cards == (("GPU-1", 4),)
    assert not grant.astray


def test_a_pod_without_a_promise_gets_the_card_that_placement_chooses() -> None:
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=1)), "a", 4, "x")
    grant = granted(with_gpu_pods(node, gpu_pod("b", 4)), 4)
    assert grant.cards == (("GPU-1", 4),)
    assert grant.astray


def test_a_promise_to_a_pod_that_is_still_to_come_is_kept_free() -> None:
    node = with_gpu_pods(allocations(14, 14), gpu_pod("promised", 12, card=0), gpu_pod("b", 4))
    assert granted(node, 4).cards == (("GPU-1", 4),)


def test_a_promise_that_a_served_pod_stands_in_the_way_of_is_moved() -> None:
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", 12, card=0)), "a", 12, "x")
    grant = granted(with_gpu_pods(node, gpu_pod("b", 4, card=0)), 4)
    assert grant.cards == (("GPU-1", 4),)
    assert grant.astray


def test_a_card_is_never_promised_beyond_its_size_whatever_annotations_say() -> None:
    node = served(with_gpu_pods(allocations(14), gpu_pod("a", 12, card=0)), "a", 12, "x")
    answer = refused(with_gpu_pods(node, gpu_pod("b", 4, card=0)), 4)
    assert answer.reason == "no_room"
    assert "pod default/b, container main" in answer.text
    assert "asked 4" in answer.text
    assert "at most 2 of 14 free on card 0" in answer.text


def test_a_promise_on_a_card_that_is_unhealthy_now_is_moved() -> None:
    node = with_gpu_pods(allocations(14, 14, broken=(0,)), gpu_pod("a", 4, card=0))
    assert granted(node, 4).cards == (("GPU-1", 4),)


def test_a_promise_on_a_card_that_the_node_does_not_have_is_no_promise() -> None:
    assert granted(with_gpu_pods(allocations(14), gpu_pod("a", 4, card=7)), 4).cards == (("GPU-0", 4),)


def test_several_cards_give_equal_parts() -> None:
    node = with_gpu_pods(allocations(14, 14, 14), gpu_pod("a", demand(8, cards=2), card=(0, 2)))
    assert granted(node, 8).cards == (("GPU-0", 4), ("GPU-2", 4))


def test_a_container_that_asks_again_gets_the_same_card() -> None:
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=1)), "a", 4, "x")
    again = granted(node, 4, "y")
    assert again.cards == (("GPU-1", 4),)
    assert again.lead == "y"
    assert not again.sure


def test_a_container_that_asks_again_is_not_refused_for_want_of_room() -> None:
    """A driver upgrade may have made the card smaller than what runs on it."""
    node = served(with_gpu_pods(allocations(14), gpu_pod("a", 14, card=0)), "a", 14, "x")
    assert granted(replace(node, cards=cards(13)), 14, "y").cards == (("GPU-0", 14),)


def test_the_second_container_goes_where_the_first_one_is() -> None:
    asks = sound(demand_of([init(4), main(4)]))
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", asks, card=1)), "a", 4, "x", "init")
    assert granted(node, 4, "x", frozenset({("a", "init")})).cards == (("GPU-1", 4),)


def test_a_pod_whose_card_is_gone_is_told_so() -> None:
    asks = sound(demand_of([main(2), main(3, name="second")]))
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", asks, card=1)), "a", 2, "x")
    answer = asked(replace(node, cards=cards(14)), 3, "y", frozenset({("a", "main")}))
    assert isinstance(answer, Rejected)
    assert "gone from the node" in answer.text


def test_a_pod_that_cannot_be_understood_is_refused_by_name() -> None:
    answer = refused(with_gpu_pods(allocations(14, 14), gpu_pod("a", demand_of([main(3)], "2"))), 3)
    assert answer.reason == "malformed"
    assert "default/a" in answer.text
    assert "3 cannot be spread evenly over 2 cards" in answer.text


def test_a_pod_without_compute_is_refused_where_the_mode_asks_for_it() -> None:
    answer = refused(with_gpu_pods(allocations(14, mode=Mode.CORE_MEM), gpu_pod("a", 4)), 4)
    assert "core_mem" in answer.text


def test_compute_is_counted_on_the_card_too() -> None:
    big, small = sound(demand_of([main(1, 80)])), sound(demand_of([main(2, 30)]))
    node = allocations(14, 14, mode=Mode.CORE_MEM)
    node = served(with_gpu_pods(node, gpu_pod("a", big, card=0)), "a", 1, "x")
    assert granted(with_gpu_pods(node, gpu_pod("b", small)), 2).cards == (("GPU-1", 2),)


def test_nobody_waits_for_that_amount() -> None:
    node = with_gpu_pods(allocations(14), gpu_pod("a", 3))
    answer = unmatched(node, 4)
    assert "waits for 4 of aliyun.com/gpu-mem" in answer.text
    assert "default/a" in answer.text


def test_an_unconfirmed_grant_ends_where_its_device_ids_are_given_out_again() -> None:
    node = with_gpu_pods(
        allocations(14, 14), gpu_pod("a", 4, card=0, bound=1), gpu_pod("b", 4, card=1, bound=2)
    )
    lost = with_grant(node, granted(node, 4, "x"))
    again = with_grant(lost, replace(granted(node, 4, "x"), uid="b", cards=(("GPU-1", 4),)))
    assert set(again.grants) == {("b", "main")}


def test_what_a_container_had_before_it_seemed_to_ask_again_stays_its_own() -> None:
    """After the loss of a checkpoint, the call of a pod that then failed was taken for one of its."""
    node = with_gpu_pods(
        allocations(14, 14), gpu_pod("a", 4, card=1, bound=1), gpu_pod("b", 8, card=0, bound=2)
    )
    node = served(node, "a", 4, "x")
    seemed = with_grant(node, granted(node, 4, "y"))
    assert not seemed.grants["a", "main"].sure
    other = with_grant(seemed, granted(seemed, 8, "y"))
    assert set(other.grants) == {("a", "main"), ("b", "main")}
    assert other.grants["a", "main"].sure
    assert other.grants["a", "main"].cards == (("GPU-1", 4),)


def test_twins_taken_for_each_other_change_places() -> None:
    node = with_gpu_pods(
        allocations(14, 14), gpu_pod("a", 4, card=0, bound=1), gpu_pod("b", 4, card=1, bound=2)
    )
    taken = with_grant(node, granted(node, 4, "x"))
    assert taken.grants["a", "main"].cards == (("GPU-0", 4),)
    known = join(taken, [ServedContainer("b", "main", "x", 4)])
    assert set(known.grants) == {("b", "main")}
    assert known.grants["b", "main"].astray
    assert known.grants["b", "main"].pod == "default/b"
    other = granted(known, 4, "y", frozenset({("b", "main")}))
    assert (other.uid, other.cards) == ("a", (("GPU-0", 4),))


def test_what_another_plugin_gave_is_taken_over() -> None:
    node = with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=0))
    known = join(node, [ServedContainer("a", "main", "x", 4, cards=("GPU-1",))])
    assert known.grants["a", "main"].cards == (("GPU-1", 4),)
    assert known.grants["a", "main"].astray


def test_what_holds_a_container_is_taken_over_with_it() -> None:
    node = with_gpu_pods(allocations(14, 14, mode=Mode.CGPU), gpu_pod("a", 4, card=0))
    entry = ServedContainer(
        "a", "main", "x", 4, cards=("GPU-1",), bound=IsolationMounts("0123456789abcdef", "00000000000000aa")
    )
    hold = join(node, [entry]).grants["a", "main"].hold
    assert hold
    assert (hold.place, hold.library) == ("00000000000000aa", "0123456789abcdef")
    assert parse(hold.limit)[0].units == 4


def test_a_limit_that_cannot_be_said_again_gives_out_nothing() -> None:
    node = with_gpu_pods(allocations(14, mode=Mode.CGPU), gpu_pod("a", 4, card=0))
    odd = replace(node, cards=(replace(node.cards[0], mib=1 << 30),))
    entry = ServedContainer(
        "a", "main", "x", 4, cards=("GPU-0",), bound=IsolationMounts("0123456789abcdef", "00000000000000aa")
    )
    hold = join(odd, [entry]).grants["a", "main"].hold
    assert hold
    assert hold.limit == ""


def test_what_another_plugin_gave_without_telling_is_left_to_the_annotations() -> None:
    node = with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=0))
    assert join(node, [ServedContainer("a", "main", "x", 4)]) is node


def test_a_pod_that_is_gone_keeps_its_card_while_it_has_processes() -> None:
    node = served(with_gpu_pods(allocations(14), gpu_pod("a", 12, card=0)), "a", 12, "x")
    gone = replace(node, gpu_pods={})
    leaving = retained(gone, frozenset({"a"}))
    assert isinstance(asked(with_gpu_pods(leaving, gpu_pod("b", 4)), 4, "y"), Rejected)
    free = retained(gone, frozenset())
    assert isinstance(asked(with_gpu_pods(free, gpu_pod("b", 4)), 4, "y"), Granted)


def test_a_pod_on_two_cards_of_which_one_is_gone_still_holds_the_other() -> None:
    node = served(
        with_gpu_pods(allocations(14, 14), gpu_pod("a", demand(24, cards=2), card=(0, 1))), "a", 24, "x"
    )
    left = with_gpu_pods(replace(node, cards=cards(14)), gpu_pod("b", 4))
    assert isinstance(asked(left, 4, "y"), Rejected)


def test_the_second_container_of_a_pod_on_two_cards_goes_there_too() -> None:
    asks = sound(demand_of([init(8), main(8)], "2"))
    node = served(with_gpu_pods(allocations(4, 4), gpu_pod("a", asks, card=(0, 1))), "a", 8, "x", "init")
    assert granted(node, 8, "x", frozenset({("a", "init")})).cards == (("GPU-0", 4), ("GPU-1", 4))


def test_a_pod_that_is_gone_keeps_its_compute_too_while_it_has_processes() -> None:
    node = allocations(14, mode=Mode.MPS)
    node = served(with_gpu_pods(node, gpu_pod("a", sound(demand_of([main(1, 100)])), card=0)), "a", 1, "x")
    leaving = with_gpu_pods(replace(node, gpu_pods={}), gpu_pod("b", sound(demand_of([main(2, 50)]))))
    assert isinstance(asked(leaving, 2, "y"), Rejected)


def test_users_are_told_apart_at_the_bind_and_not_here() -> None:
    node = served(with_gpu_pods(allocations(14, mode=Mode.MPS), gpu_pod("a", 4, card=0)), "a", 4, "x")
    for user in (2000, None):
        other = with_gpu_pods(node, gpu_pod("b", demand(2, user=user)))
        assert granted(other, 2, "y").cards == (("GPU-0", 2),)


def test_who_is_elsewhere_than_told_once_cards_have_changed_places_is_marked() -> None:
    node = served(with_gpu_pods(allocations(14, 14), gpu_pod("a", 4, card=1)), "a", 4, "x")
    assert marked(node) is node
    (_, second) = node.cards
    moved = marked(replace(node, cards=(replace(second, index=0),)))
    assert moved.grants["a", "main"].astray
