"""The source documents' stories: their clusters, their workloads, the commands that show the result.

What belongs here: what the demo plays and the integration tests check. What does not: running a
cluster, and the wording of any output.

S0 shares one T4 among notebooks, S2 one V100 between two replicas, S3 a P40 node and a TITAN Xp
node; S3's pictures are about cards of 16276 MiB, counted in MiB.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import yaml

from gpushare.contract import ANN_PLACEMENT
from testbed.control_plane.api import Object
from testbed.control_plane.nodes import Card, SimNode, gpu_pod

T4 = Card("Tesla T4", 15079, 14)
V100 = Card("Tesla V100-SXM2-16GB", 16130, 15)
P40 = Card("Tesla P40", 22919, 22)
TITAN_XP = Card("TITAN Xp", 12196, 11)
CARD_IN_MIB = Card("Tesla V100-SXM2-16GB", 16276, 16276)


@dataclass(frozen=True)
class Step:
    """Something that is created, and how many pods are to run after it in all."""

    says: str
    running: int
    manifest: str = ""
    pods: Sequence[Object] = ()
    waiting: Sequence[str] = ()
    """Name prefixes of pods that cannot be placed, whose events are shown."""


@dataclass(frozen=True)
class Story:
    """One document's story on its own cluster.

    ``commands`` are shown, and run, after the steps. Where its nodes have real kubelets, so are
    ``inside``, which need containers that run, and ``on_node``, on the first node with the rights of
    its agent. ``simulated`` is for stories that are about numbers only. ``deployed`` asks for our
    services as users have them, deployed from images.
    """

    name: str
    title: str
    nodes: Sequence[SimNode]
    steps: Sequence[Step]
    commands: Sequence[str]
    inside: Sequence[str] = ()
    on_node: Sequence[str] = ()
    simulated: bool = False
    deployed: bool = False

    @property
    def images(self) -> list[str]:
        """The images that its manifests ask for, by their full names."""
        objects = [each for step in self.steps for each in yaml.safe_load_all(step.manifest)]
        pods = [each["spec"]["template"]["spec"] for each in objects if "template" in each["spec"]]
        return sorted({_full_name(each["image"]) for pod in pods for each in pod["containers"]})


def _full_name(image: str) -> str:
    """As container runtimes read a name without a registry."""
    return f"docker.io/{image}" if "/" in image else f"docker.io/library/{image}"


def manifest(name: str, **values: str) -> str:
    """The text of a workload of the sources."""
    text = files(__name__).joinpath(f"{name}.yaml").read_text()
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return text


def notebooks() -> Story:
    """S0: three notebooks of 4 fill 12 of 14 units; a fourth waits."""
    return Story(
        "s0",
        "S0: TensorFlow notebooks share one T4 (15079 MiB, 14 units)",
        [SimNode("cn-zhangjiakou.192.168.3.184", [T4], "192.168.3.184", {"cgpu": "true"})],
        [
            Step("three notebooks of 4 GiB", 3, "---\n".join(_notebook(s) for s in ("", "-2", "-3"))),
            Step("a fourth one does not fit", 3, _notebook("-4"), waiting=["tf-notebook-4-"]),
        ],
        ["kubectl gpushare top node -s", "kubectl gpushare top node -s -d", "kubectl inspect cgpu"],
        inside=["kubectl get pods", "kubectl exec deploy/tf-notebook -- env | grep -e ALIYUN -e NVIDIA"],
    )


def _notebook(suffix: str) -> str:
    return manifest("tf-notebook", suffix=suffix)


def replicas() -> Story:
    """S2: a StatefulSet of two replicas of 4 on one card of 15."""
    return Story(
        "s2",
        "S2: two replicas of one application share one V100 (16130 MiB, 15 units)",
        [SimNode("cn-hangzhou.192.168.2.167", [V100], "192.168.2.167", {"cgpu": "true"})],
        [Step("a StatefulSet of 2 replicas of 4 GiB", 2, manifest("app-3g-v1"))],
        ["kubectl inspect cgpu", "kubectl inspect cgpu -d"],
        inside=["kubectl exec app-3g-v1-1 -- env | grep ALIYUN"],
    )


def sample() -> Story:
    """S3: the sample application on a node of four P40, beside a node of seven TITAN Xp."""
    return Story(
        "s3",
        "S3: the sample application, with 4 x P40 (22 units) and 7 x TITAN Xp (11 units)",
        [
            SimNode("10.0.20.250", [P40] * 4, "10.0.20.250", {"gpushare": "true"}),
            # Fewer cores: S3's own Policy gives no scores, and then Kubernetes' own prefer the larger node.
            SimNode("10.0.33.21", [TITAN_XP] * 7, "10.0.33.21", {"gpushare": "true"}, cpu="4", memory="16Gi"),
        ],
        [Step("binpack-1 of 1 GiB", 1, manifest("binpack-1"))],
        ["kubectl inspect gpushare -d"],
        inside=["kubectl exec deploy/binpack-1 -- env | grep ALIYUN"],
        on_node=["kubectl-inspect-gpushare-v2 -d"],
        deployed=True,
    )


def pictures() -> Story:
    """S3's two pictures: only N3 has 8138 MiB on one card; binpack takes GPU1 of four."""
    pair = [CARD_IN_MIB] * 2
    return Story(
        "s3-pictures",
        "S3's pictures: cards of 16276 MiB, a pod that asks for 8138",
        [
            *(SimNode(f"n{i}", pair, f"192.168.0.{i}") for i in (1, 2, 3)),
            SimNode("n4", [CARD_IN_MIB] * 4, "192.168.0.4"),
        ],
        [
            Step(
                "N1 is left with 4069 on one card, N2 with 4069 on each of two, N3 with 8138 on one",
                6,
                pods=[
                    *_filled("n1", 16276, 12207),
                    *_filled("n2", 12207, 12207),
                    *_filled("n3", 8138, 16276),
                ],
            ),
            Step("a pod of 8138 for N1, N2 or N3", 7, pods=[_picky("picture-1", 8138, ["n1", "n2", "n3"])]),
            Step(
                "N4 is left with 12207, 8138, 4069 and 16276 on its cards",
                10,
                pods=_filled("n4", 4069, 8138, 12207, placement="spread"),
            ),
            Step("a pod of 8138 for N4", 11, pods=[_picky("picture-2", 8138, ["n4"])]),
        ],
        ["kubectl inspect gpushare", "kubectl inspect gpushare -d n4"],
        simulated=True,
    )


def _filled(node: str, *amounts: int, placement: str = "binpack") -> list[Object]:
    return [_picky(f"{node}-{index}", amount, [node], placement) for index, amount in enumerate(amounts)]


def _picky(name: str, amount: int, nodes: list[str], placement: str = "binpack") -> Object:
    """A pod that accepts certain nodes only."""
    pod = gpu_pod(name, amount)
    pod["metadata"].setdefault("annotations", {})[ANN_PLACEMENT] = placement
    wanted = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}]}
    pod["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wanted]}}
    }
    return pod


STORIES = (notebooks, replicas, pictures, sample)
