"""``replay``: the node that loses the least usable GPU, by replaying the pods seen so far on it.

Each node is offered short sequences of pods drawn from those that have arrived, once as it is and once with
the new pod. The difference in what the sequences can use is the loss of the node. It is not a ``Policy`` of
one node's book: it compares nodes by their CPU and memory too, and it learns.
"""
