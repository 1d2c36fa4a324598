"""The scenarios of the ACK documentation: their clusters, their workloads, the commands that show the result.

What belongs here: what the demo plays and the integration tests check. What does not: running a
cluster, and printing.

``notebooks`` share one T4, ``replicas`` share one V100, ``sample`` runs on a P40 node and a TITAN Xp
node, and ``pictures`` are two diagrams of GPUs of 16276 MiB, counted in MiB.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

import yaml

from gpushare.contract import ANN_PLACEMENT
from release.published import examples
from testbed.control_plane.api import Object
from testbed.control_plane.nodes import SimGpu, SimNode, gpu_pod

T4 = SimGpu("Tesla T4", 15079, 14)
V100 = SimGpu("Tesla V100-SXM2-16GB", 16130, 15)
P40 = SimGpu("Tesla P40", 22919, 22)
TITAN_XP = SimGpu("TITAN Xp", 12196, 11)
CARD_IN_MIB = SimGpu("Tesla V100-SXM2-16GB", 16276, 16276)


@dataclass(frozen=True)
class StoryStep:
    """What one step creates; ``running`` is the number of running pods in the cluster after it."""

    description: str
    running: int
    manifest: str = ""
    pods: Sequence[Object] = ()
    waiting: Sequence[str] = ()
    """Name prefixes of pods that cannot be placed; their events are shown."""
    crashing: Sequence[str] = ()
    """Names of pods whose container ends again and again."""


@dataclass(frozen=True)
class Story:
    """One scenario on its own cluster.

    ``commands`` are printed and run after the steps. On nodes with real kubelets, two more lists follow:
    ``inside`` needs running containers, and ``on_node`` runs on the first node with the service account
    of its agent. ``simulated`` scenarios show placement only, on simulated nodes. For ``deployed`` ones,
    our services are deployed from images as users deploy them.
    """

    name: str
    title: str
    nodes: Sequence[SimNode]
    steps: Sequence[StoryStep]
    commands: Sequence[str]
    inside: Sequence[str] = ()
    on_node: Sequence[str] = ()
    simulated: bool = False
    deployed: bool = False

    @property
    def images(self) -> list[str]:
        """Full names of the images in its manifests."""
        objects = [each for step in self.steps for each in yaml.safe_load_all(step.manifest)]
        pods = [each["spec"]["template"]["spec"] for each in objects if "template" in each["spec"]]
        return sorted({_full_name(each["image"]) for pod in pods for each in pod["containers"]})


def _full_name(image: str) -> str:
    """Return the name that container runtimes derive from one without a registry."""
    first, slash, _ = image.partition("/")
    if slash and "." in first:
        return image
    return f"docker.io/{image}" if slash else f"docker.io/library/{image}"


def manifest(name: str, **values: str) -> str:
    """Return the manifest ``<name>.yaml`` with the values filled in."""
    text = files(__name__).joinpath(f"{name}.yaml").read_text()
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return text


def notebooks() -> Story:
    """Three notebooks of 4 units fill 12 of 14; a fourth waits."""
    return Story(
        "s0",
        "TensorFlow notebooks share one T4 (15079 MiB, 14 units)",
        [SimNode("cn-zhangjiakou.192.168.3.184", [T4], "192.168.3.184", {"cgpu": "true"})],
        [
            StoryStep("Three notebooks of 4 GiB", 3, "---\n".join(_notebook(s) for s in ("", "-2", "-3"))),
            StoryStep("A fourth notebook does not fit", 3, _notebook("-4"), waiting=["tf-notebook-4-"]),
        ],
        ["kubectl gpushare top node -s", "kubectl gpushare top node -s -d", "kubectl inspect cgpu"],
        inside=["kubectl get pods", "kubectl exec deploy/tf-notebook -- env | grep -e ALIYUN -e NVIDIA"],
    )


def _notebook(suffix: str) -> str:
    return manifest("tf-notebook", suffix=suffix)


def replicas() -> Story:
    """A StatefulSet of two replicas of 4 units on one GPU of 15 units."""
    return Story(
        "s2",
        "Two replicas of one application share one V100 (16130 MiB, 15 units)",
        [SimNode("cn-hangzhou.192.168.2.167", [V100], "192.168.2.167", {"cgpu": "true"})],
        [StoryStep("A StatefulSet of 2 replicas of 4 GiB", 2, manifest("app-3g-v1"))],
        ["kubectl inspect cgpu", "kubectl inspect cgpu -d"],
        inside=["kubectl exec app-3g-v1-1 -- env | grep ALIYUN"],
    )


def isolation(samples: str) -> Story:
    """Two replicas whose programs, of the image ``samples``, use GPU memory, and a pod that uses too much."""
    replica = "kubectl exec app-3g-v1-1 --"
    published = examples(samples)
    return replace(
        replicas(),
        name="s2-isolation",
        title="Memory limits: two replicas of 3 GiB and a pod of 6 GiB, each with 4 of 15 units of one V100",
        steps=[
            StoryStep("A StatefulSet of 2 replicas that use 3 GiB each", 2, published["app-3g"]),
            StoryStep("A pod that uses 6 GiB", 2, published["app-6g"], crashing=["app-6g-v1-0"]),
        ],
        inside=[
            # First, while the pod pauses between two starts.
            "kubectl get pods",
            "kubectl logs app-6g-v1-0",
            f"{replica} env | grep ALIYUN",
            f"{replica} nvidia-smi",
            f"{replica} cuda_malloc -size=512",
            f"{replica} cuda_malloc -size=1024 2>/dev/null || echo exit code $?",
            "kubectl gpushare limits",
            "kubectl gpushare top pod",
        ],
        deployed=True,
    )


def tour(limits: Story) -> Story:
    """The scenario ``limits`` in a cluster to explore, with another model of GPU and a pod that fits nowhere.

    Notebooks fill the T4, so that the pods of ``limits`` go to the V100.
    """
    (t4,), (first, *_) = notebooks().nodes, notebooks().steps
    steps = [replace(step, running=step.running + first.running) for step in limits.steps]
    return replace(
        limits,
        name="tour",
        title="Two models of GPU, memory limits, a program that uses too much, and a pod that does not fit",
        nodes=[*limits.nodes, t4],
        steps=[
            replace(first, manifest=_on(t4, first.manifest)),
            *steps,
            StoryStep("A pod of 24 GiB", steps[-1].running, manifest("fine-tune"), waiting=["fine-tune"]),
        ],
        commands=[*limits.commands, "kubectl gpushare explain fine-tune"],
    )


def _on(node: SimNode, text: str) -> str:
    """Return the manifest with its workloads on ``node``."""
    objects = list(yaml.safe_load_all(text))
    for each in objects:
        if "template" in each["spec"]:
            each["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node.name}
    return yaml.safe_dump_all(objects)


def sample() -> Story:
    """The sample application in a cluster of a node with four P40 and one with seven TITAN Xp."""
    return Story(
        "s3",
        "The sample application on nodes with 4 x P40 (22 units) and 7 x TITAN Xp (11 units)",
        [
            SimNode("10.0.20.250", [P40] * 4, "10.0.20.250", {"gpushare": "true"}),
            # Fewer cores: the documented Policy has no prioritize verb, so that the scores of Kubernetes
            # decide, and they prefer the larger node.
            SimNode("10.0.33.21", [TITAN_XP] * 7, "10.0.33.21", {"gpushare": "true"}, cpu="4", memory="16Gi"),
        ],
        [StoryStep("The deployment binpack-1 of 1 GiB", 1, manifest("binpack-1"))],
        ["kubectl inspect gpushare -d"],
        inside=["kubectl exec deploy/binpack-1 -- env | grep ALIYUN"],
        on_node=["kubectl-inspect-gpushare-v2 -d"],
        deployed=True,
    )


def pictures() -> Story:
    """Two diagrams: only N3 has 8138 MiB free on one GPU; binpack selects GPU1 of the four on N4."""
    pair, three = [CARD_IN_MIB] * 2, ["n1", "n2", "n3"]
    return Story(
        "s3-pictures",
        "Binpack: GPUs of 16276 MiB, a pod that requests 8138 MiB",
        [
            *(SimNode(f"n{i}", pair, f"192.168.0.{i}") for i in (1, 2, 3)),
            SimNode("n4", [CARD_IN_MIB] * 4, "192.168.0.4"),
        ],
        [
            StoryStep(
                "Free after this step: N1 4069 MiB on one GPU, N2 4069 MiB on both, N3 8138 MiB on one",
                6,
                pods=[
                    *_pods_of("n1", 16276, 12207),
                    *_pods_of("n2", 12207, 12207),
                    *_pods_of("n3", 8138, 16276),
                ],
            ),
            StoryStep(
                "A pod of 8138 MiB for N1, N2 or N3",
                7,
                pods=[_pod_for(three, "picture-1", 8138)],
            ),
            StoryStep(
                "Free on the GPUs of N4 after this step: 12207, 8138, 4069 and 16276 MiB",
                10,
                pods=_pods_of("n4", 4069, 8138, 12207, placement="spread"),
            ),
            StoryStep("A pod of 8138 MiB for N4", 11, pods=[_pod_for(["n4"], "picture-2", 8138)]),
        ],
        ["kubectl inspect gpushare", "kubectl inspect gpushare -d n4"],
        simulated=True,
    )


def _pods_of(node: str, *amounts: int, placement: str = "binpack") -> list[Object]:
    return [_pod_for([node], f"{node}-{index}", amount, placement) for index, amount in enumerate(amounts)]


def _pod_for(nodes: list[str], name: str, amount: int, placement: str = "binpack") -> Object:
    """Return a pod with node affinity to ``nodes``."""
    pod = gpu_pod(name, amount)
    pod["metadata"].setdefault("annotations", {})[ANN_PLACEMENT] = placement
    wanted = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}]}
    pod["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wanted]}}
    }
    return pod
