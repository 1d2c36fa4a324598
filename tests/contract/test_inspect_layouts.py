"""The tools print the output of the Aliyun tools, byte for byte, including trailing blanks.

Texts are those of the ACK documentation and of the Aliyun programs run on the same objects.
"""

import json

from gpushare.cli.inspect import render as inspect
from gpushare.cli.top import arena, arena_share
from gpushare.contract import ANN_CARDS
from tests.support.builders.api_objects import literal, node, pod, share, views, whole

HANGZHOU = "cn-hangzhou.192.168.2.167"
ZHANGJIAKOU = "cn-zhangjiakou.192.168.3.184"
NOTEBOOKS = (
    "tf-notebook-2-7b4d68d8f7-wxlff",
    "tf-notebook-3-86c48d4c7d-lk9h8",
    "tf-notebook-7cf4575d78-9gxzd",
)


def test_kubectl_inspect_cgpu_of_an_idle_node() -> None:
    nodes = [node(HANGZHOU, share(15), address="192.168.2.167")]
    assert inspect.summary(views(nodes)) == literal(
        """
        NAME                       IPADDRESS      GPU0(Allocated/Total)  GPU Memory(GiB)
        cn-hangzhou.192.168.2.167  192.168.2.167  0/15                   0/15
        ----------------------------------------------------------------------
        Allocated/Total GPU Memory In Cluster:
        0/15 (0%)··
        """
    )


def test_kubectl_inspect_gpushare_with_gpus_that_a_node_lacks_and_pending_pods() -> None:
    nodes = [
        node("node-bbbb", share(15), address="10.0.0.2"),
        node("node-a", share(30, 2), address="10.0.0.1"),
    ]
    pods = [
        pod("a", "node-a", 6, index="0"),
        pod("b", "node-a", 3, index="1"),
        pod("c", "node-bbbb", 3, index="0"),
        pod("d", "node-bbbb", 2),
    ]
    assert inspect.summary(views(nodes, pods)) == literal(
        """
        NAME       IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  PENDING(Allocated)  GPU Memory(GiB)
        node-a     10.0.0.1   6/15                   3/15                                       9/30
        node-bbbb  10.0.0.2   3/15                   0/0                    2                   5/15
        ----------------------------------------------------
        Allocated/Total GPU Memory In Cluster:
        14/45 (31%)··
        """  # noqa: E501 - the text as it is
    )


def test_kubectl_inspect_gpushare_of_a_cluster_that_shares_nothing() -> None:
    assert inspect.summary([]) == literal(
        """
        NAME  IPADDRESS  GPU Memory()

        Allocated/Total GPU Memory In Cluster:
        0/0 (0%)··
        """
    )


def test_kubectl_inspect_cgpu_d() -> None:
    nodes = [node(HANGZHOU, share(15), address="192.168.2.167")]
    pods = [pod(name, HANGZHOU, 4, index="0") for name in ("app-3g-v1-0", "app-3g-v1-1")]
    assert inspect.details(views(nodes, pods)) == "\n" + literal(
        """
        NAME:       cn-hangzhou.192.168.2.167
        IPADDRESS:  192.168.2.167

        NAME         NAMESPACE  GPU0(Allocated)··
        app-3g-v1-0  default    4················
        app-3g-v1-1  default    4················
        Allocated :  8 (53%)····
        Total :      15·········
        --------------------------------------------------------


        Allocated/Total GPU Memory In Cluster:  8/15 (53%)··
        """
    )


def test_kubectl_inspect_gpushare_d_takes_the_rule_of_the_first_node_for_all() -> None:
    nodes = [node("10.0.20.250", share(88, 4), address="10.0.20.250"), node("10.0.33.21", share(77, 7))]
    pods = [pod("binpack-1-767bddd4b5-gzqk7", "10.0.20.250", 1, index="0")]
    text = inspect.details(views(nodes, pods))
    assert [len(line) for line in text.splitlines() if line.startswith("---")] == [54, 54]
    assert "Allocated :                 1 (1%)" in text
    assert "Allocated/Total GPU Memory In Cluster:  1/165 (0%)  \n" in text


def test_kubectl_inspect_gpushare_d_with_pending_pods() -> None:
    nodes = [node("n1", share(30, 2))]
    pods = [pod("sure", "n1", 4, index="1"), pod("lost", "n1", 2, namespace="ml")]
    assert inspect.details(views(nodes, pods)) == "\n" + literal(
        """
        NAME:       n1
        IPADDRESS:  10.0.0.1

        NAME         NAMESPACE  GPU0(Allocated)  GPU1(Allocated)  Pending(Allocated)··
        sure         default    0                4                0···················
        lost         ml         0                0                2···················
        Allocated :  6 (20%)····
        Total :      30·········
        ---------------------------------------------


        Allocated/Total GPU Memory In Cluster:  6/30 (20%)··
        """
    )


def test_arena_top_node() -> None:
    master = {"node-role.kubernetes.io/master": ""}
    nodes = [
        node("cn-zhangjiakou.192.168.0.138", {}, address="192.168.0.138", labels=master),
        node("cn-zhangjiakou.192.168.1.112", {}, address="192.168.1.112", labels=master),
        node("cn-zhangjiakou.192.168.1.113", {}, address="192.168.1.113"),
        node("cn-zhangjiakou.192.168.3.115", {}, address="192.168.3.115", labels=master),
        node(ZHANGJIAKOU, share(14), address="192.168.3.184"),
    ]
    assert arena.summary(views(nodes)) == literal(
        """
        NAME                          IPADDRESS      ROLE    STATUS  GPU(Total)  GPU(Allocated)  GPU(Shareable)
        cn-zhangjiakou.192.168.0.138  192.168.0.138  master  ready   0           0               No
        cn-zhangjiakou.192.168.1.112  192.168.1.112  master  ready   0           0               No
        cn-zhangjiakou.192.168.1.113  192.168.1.113  <none>  ready   0           0               No
        cn-zhangjiakou.192.168.3.115  192.168.3.115  master  ready   0           0               No
        cn-zhangjiakou.192.168.3.184  192.168.3.184  <none>  ready   1           0               Yes
        ------------------------------------------------------------------------------------------------
        Allocated/Total GPUs In Cluster:
        0/1 (0%)··
        """  # noqa: E501 - the text as it is
    )


MIXED = [
    node("gpu-1", share(30, 2), address="10.0.0.1"),
    node("gpu-2", whole(3), capacity=whole(4), address="10.0.0.2", ready=False),
    node("idle", {}, address="10.0.0.3", labels={"node-role.kubernetes.io/master": ""}),
    node("quiet", whole(2), address="10.0.0.4"),
]
MIXED_PODS = [
    pod("a", "gpu-1", 4, index="0"),
    pod("b", "gpu-1", 3, index="1", namespace="ml"),
    pod("whole", "gpu-2", gpus=2),
]


def test_arena_top_node_with_an_unready_node_and_an_unhealthy_gpu() -> None:
    assert arena.summary(views(MIXED, MIXED_PODS)) == literal(
        f"""
        NAME   IPADDRESS  ROLE    STATUS    GPU(Total)  GPU(Allocated)  GPU(Unhealthy)  GPU(Shareable)
        gpu-1  10.0.0.1   <none>  ready     2           2               0               Yes
        gpu-2  10.0.0.2   <none>  notReady  4           2               1               No
        idle   10.0.0.3   master  ready     0           0               0               No
        quiet  10.0.0.4   <none>  ready     2           0               0               No
        {"-" * 107}
        Allocated/Total GPUs In Cluster:
        4/8 (50%)··
        Allocated/Total GPUs(Active) In Cluster:
        4/4 (100%)··
        Unhealthy/Total GPUs In Cluster:
        1/8 (12%)··
        """
    )


def test_arena_top_node_without_shared_gpus() -> None:
    nodes = [node("quiet", whole(2))]
    assert arena.summary(views(nodes)) == literal(
        f"""
        NAME   IPADDRESS  ROLE    STATUS  GPU(Total)  GPU(Allocated)
        quiet  10.0.0.1   <none>  ready   2           0
        {"-" * 89}
        Allocated/Total GPUs In Cluster:
        0/2 (0%)··
        """
    )


def test_arena_top_node_without_shared_gpus_but_an_unhealthy_one() -> None:
    nodes = [node("sick", whole(1), capacity=whole(2))]
    assert f"\n{'-' * 99}\n" in arena.summary(views(nodes))


def test_arena_top_node_d() -> None:
    rule = "-" * 89
    assert arena.details(views(MIXED, MIXED_PODS)) == "\n\n" + literal(
        f"""
        NAME:       gpu-1
        IPADDRESS:  10.0.0.1
        ROLE:       <none>

        NAMESPACE  NAME  GPU REQUESTS···
        default    a     0.27··········
        ml         b     0.20··········

        Total GPUs In Node gpu-1:      2·········
        Allocated GPUs In Node gpu-1:  2 (100%)··
        If Node is Shareable :         Yes·
        Unhealthy GPUs In Node gpu-1:  0 (0%)··
        {rule}

        NAME:       gpu-2
        IPADDRESS:  10.0.0.2
        ROLE:       <none>

        NAMESPACE  NAME   GPU REQUESTS···
        default    whole  2·············

        Total GPUs In Node gpu-2:      4········
        Allocated GPUs In Node gpu-2:  2 (50%)··
        Unhealthy GPUs In Node gpu-2:  1 (25%)··
        {rule}

        NAME:       idle
        IPADDRESS:  10.0.0.3
        ROLE:       master

        Total GPUs In Node idle:      0·······
        Allocated GPUs In Node idle:  0 (0%)··
        Unhealthy GPUs In Node idle:  0 (0%)··
        {rule}

        NAME:                          quiet
        IPADDRESS:                     10.0.0.4
        ROLE:                          <none>
        Total GPUs In Node quiet:      2·······
        Allocated GPUs In Node quiet:  0 (0%)··
        Unhealthy GPUs In Node quiet:  0 (0%)··
        {rule}


        Allocated/Total GPUs In Cluster:  4/8 (50%)··
        Unhealthy/Total GPUs In Cluster:  1/8 (12%)··
        """
    )


def test_arena_top_node_s_of_an_idle_node_and_of_a_used_one() -> None:
    nodes = [node(ZHANGJIAKOU, share(14), address="192.168.3.184")]
    idle = literal(
        """
        NAME                          IPADDRESS      GPU0(Allocated/Total)··
        cn-zhangjiakou.192.168.3.184  192.168.3.184  0/14···················
        ---------------------------------------------------------------------
        Allocated/Total GPU Memory In GPUShare Node:
        0/14 (GiB) (0%)··
        """
    )
    assert arena_share.summary(views(nodes)) == idle
    used = literal(
        """
        NAME                          IPADDRESS      GPU0(Allocated/Total)··
        cn-zhangjiakou.192.168.3.184  192.168.3.184  12/14··················
        ----------------------------------------------------------------------
        Allocated/Total GPU Memory In GPUShare Node:
        12/14 (GiB) (85%)··
        """
    )
    pods = [pod(name, ZHANGJIAKOU, 4, index="0") for name in NOTEBOOKS]
    assert arena_share.summary(views(nodes, pods)) == used


def test_arena_top_node_s_d() -> None:
    nodes = [node(ZHANGJIAKOU, share(14), address="192.168.3.184")]
    pods = [pod(name, ZHANGJIAKOU, 4, index="0") for name in NOTEBOOKS]
    assert arena_share.details(views(nodes, pods)) == "\n" + literal(
        f"""
        NAME:       cn-zhangjiakou.192.168.3.184
        IPADDRESS:  192.168.3.184

        NAME                            NAMESPACE  GPU0(Allocated)··
        tf-notebook-2-7b4d68d8f7-wxlff  default    4················
        tf-notebook-3-86c48d4c7d-lk9h8  default    4················
        tf-notebook-7cf4575d78-9gxzd    default    4················
        Allocated :                     12 (85%)···
        Total :                         14·········
        {"-" * 134}


        Allocated/Total GPU Memory In GPUShare Node:
        12/14 (GiB) (85%)··
        """
    )


def test_kubectl_inspect_cgpu_of_a_node_with_a_pod_from_before_it_was_shared() -> None:
    """The second source document: ``app-3g-v1-0`` has a whole GPU, then the node is labelled."""
    cards = [
        {"index": 0, "units": 15, "healthy": False, "whole_gpu_pods": ["default/app-3g-v1-0"]},
        {"index": 1, "units": 15},
    ]
    nodes = [node(HANGZHOU, share(30, 2), annotations={ANN_CARDS: json.dumps(cards)})]
    pods = [pod("app-3g-v1-0", HANGZHOU, gpus=1), pod("app-3g-v1-1", HANGZHOU, 4, index="1")]
    assert inspect.summary(views(nodes, pods)) == literal(
        """
        NAME                       IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  GPU Memory(GiB)
        cn-hangzhou.192.168.2.167  10.0.0.1   15/15                  4/15                   19/30
        ------------------------------------------------------------------------
        Allocated/Total GPU Memory In Cluster:
        19/30 (63%)··
        """
    )
    assert inspect.details(views(nodes, pods)) == "\n" + literal(
        """
        NAME:       cn-hangzhou.192.168.2.167
        IPADDRESS:  10.0.0.1

        NAME         NAMESPACE  GPU0(Allocated)  GPU1(Allocated)··
        app-3g-v1-0  default    15               0················
        app-3g-v1-1  default    0                4················
        Allocated :  19 (63%)···
        Total :      30·········
        -------------------------------------------------------------


        Allocated/Total GPU Memory In Cluster:  19/30 (63%)··
        """
    )
