"""Stand-ins for the operators of the recipes: the workloads that they create for their resources. Pure.

What belongs here: what an operator copies into its pods, as its source has it. What does not: reading and
writing objects (``tests.support.fixtures.operators``). What decides neither node nor GPU is left out: probes,
environment variables, init containers, volumes.

========== ============================================================================================
KServe     0.17.0: ``MergeRuntimeContainers``, ``MergePodSpec`` and ``UpdateImageTag`` in
           pkg/controller/v1beta1/inferenceservice/utils/utils.go, ``createRawDefaultDeployment`` in
           reconcilers/deployment; the runtime is config/runtimes/kserve-huggingfaceserver.yaml
KubeRay    1.6.2: ``DefaultHeadPodTemplate``, ``DefaultWorkerPodTemplate``, ``BuildPod`` and
           ``addWellKnownAcceleratorResources`` in ray-operator/controllers/ray/common/pod.go
Kubeflow   Notebooks 1.11.0: ``generateStatefulSet`` in components/notebook-controller/controllers/
           notebook_controller.go; the webhook of PodDefaults in components/admission-webhook
JupyterHub KubeSpawner 7.0.0: ``make_pod`` in kubespawner/objects.py; the scheduler of the chart 4.4.0 in
           jupyterhub/files/hub/jupyterhub_config.py
Kueue      0.17.1: ``RunWithPodSetsInfo`` in pkg/controller/jobs/job/job_controller.go
========== ============================================================================================
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from gpushare.model.quantity import parse_quantity

Object = Mapping[str, Any]

RAY_CLUSTER: Final = "ray.io/cluster"
USER_SCHEDULER: Final = "user-scheduler"
"""The scheduler of the chart of JupyterHub, which its pods have unless a profile names another."""
QUEUE: Final = "kueue.x-k8s.io/queue-name"
_SERVICE: Final = "serving.kserve.io/inferenceservice"
_RUNTIME: Final[Object] = {
    "name": "kserve-container",
    "image": "kserve/huggingfaceserver:v0.17.0",
    "args": ["--model_name={{.Name}}"],
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "privileged": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
    },
    "resources": {
        "requests": {"cpu": "1", "memory": "2Gi"},
        "limits": {"cpu": "1", "memory": "2Gi"},
    },
}


def kserve_deployment(service: Object) -> dict[str, Any]:
    """The Deployment of an InferenceService in Standard mode, with the runtime of Hugging Face."""
    name = f"{service['metadata']['name']}-predictor"
    predictor = dict(service["spec"]["predictor"])
    model = predictor.pop("model")
    strategy = predictor.pop("deploymentStrategy")
    replicas = predictor.pop("minReplicas")
    del predictor["maxReplicas"]
    container = {
        **_RUNTIME,
        "image": f"{_RUNTIME['image'].partition(':')[0]}:{model['runtimeVersion']}",
        "args": [*_RUNTIME["args"], *model["args"]],
        "resources": {
            kind: {**_RUNTIME["resources"][kind], **model["resources"].get(kind, {})}
            for kind in ("requests", "limits")
        },
    }
    labels = {"app": f"isvc.{name}", _SERVICE: service["metadata"]["name"]}
    pod = {"metadata": {"labels": labels}, "spec": {**predictor, "containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": labels["app"]}}, "replicas": replicas, "strategy": strategy}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {**spec, "template": pod},
    }


def ray_pods(cluster: Object) -> list[dict[str, Any]]:
    """The pods of a RayCluster: the head, and the replicas of each group of workers."""
    name = cluster["metadata"]["name"]
    spec = cluster["spec"]
    head = _ray_pod(name, "head", "headgroup", spec["headGroupSpec"])
    workers = (
        _ray_pod(name, f"{group['groupName']}-worker-{number}", group["groupName"], group)
        for group in spec["workerGroupSpecs"]
        for number in range(group["replicas"])
    )
    return [head, *workers]


def _ray_pod(cluster: str, suffix: str, group: str, spec: Object) -> dict[str, Any]:
    template = spec["template"]
    first, *others = template["spec"]["containers"]
    limits = first["resources"].get("limits", {})
    flags = " ".join(
        f"--{key}={value}" for key, value in ray_parameters(spec["rayStartParams"], limits).items()
    )
    start = {**first, "command": ["/bin/bash", "-c", "--"], "args": [f"ulimit -n 65536; ray start {flags}"]}
    labels = {RAY_CLUSTER: cluster, "ray.io/group": group}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{cluster}-{suffix}", "labels": labels},
        "spec": {**template["spec"], "containers": [start, *others]},
    }


def ray_parameters(given: Mapping[str, str], limits: Mapping[str, str]) -> dict[str, str]:
    """The parameters of ``ray start``: GPUs are those given, else a limit whose name ends with "gpu"."""
    found = dict(given)
    for name in sorted(limits):
        if name.endswith("gpu"):
            found.setdefault("num-gpus", limits[name])
    return found


def notebook_stateful_set(notebook: Object, defaults: Iterable[Object]) -> dict[str, Any]:
    """The StatefulSet of a Notebook, with what the PodDefaults that select it add to its pod."""
    name = notebook["metadata"]["name"]
    labels = {"statefulset": name, "notebook-name": name, **notebook["metadata"].get("labels", {})}
    spec = dict(notebook["spec"]["template"]["spec"])
    for each in defaults:
        if each["spec"]["selector"]["matchLabels"].items() <= labels.items():
            spec["tolerations"] = [*spec.get("tolerations", ()), *each["spec"].get("tolerations", ())]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "serviceName": name,
            "selector": {"matchLabels": {"statefulset": name}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def jupyterhub_pod(values: Object, user: str, slug: str) -> dict[str, Any]:
    """The pod of a user who chose a profile of these values of the chart."""
    server = values["singleuser"]
    (profile,) = (each for each in server["profileList"] if each["slug"] == slug)
    chosen = profile.get("kubespawner_override", {})
    resources = {
        "requests": {"cpu": str(server["cpu"]["guarantee"]), "memory": server["memory"]["guarantee"]},
        "limits": {"memory": server["memory"]["limit"], **chosen.get("extra_resource_limits", {})},
    }
    image = f"{server['image']['name']}:{server['image']['tag']}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"jupyter-{user}", "labels": {"component": "singleuser-server"}},
        "spec": {
            "schedulerName": chosen.get("scheduler_name", USER_SCHEDULER),
            "containers": [{"name": "notebook", "image": image, "resources": resources}],
        },
    }


def flavor_of(queue: Object) -> Any:
    """The first flavor of a queue, with its quotas."""
    (group,) = queue["spec"]["resourceGroups"]
    return group["flavors"][0]


def kueue_admitted(jobs: Sequence[Object], queue: Object, flavor: Object) -> Iterator[Object]:
    """What Kueue changes of suspended jobs that its queue has room for, oldest first: patches by job."""
    quotas = {each["name"]: each["nominalQuota"] for each in flavor_of(queue)["resources"]}
    free = {name: parse_quantity(quota) for name, quota in quotas.items()}
    queued = [each for each in jobs if QUEUE in each["metadata"].get("labels", {})]
    for job in (each for each in queued if not each["spec"]["suspend"] and not _has_ended(each)):
        free = {name: amount - _requested(job, name) for name, amount in free.items()}
    for job in sorted(queued, key=lambda each: str(each["metadata"]["name"])):
        if job["spec"]["suspend"] and all(_requested(job, name) <= free[name] for name in free):
            free = {name: amount - _requested(job, name) for name, amount in free.items()}
            template = {"spec": {"nodeSelector": flavor["spec"]["nodeLabels"]}}
            change = {"suspend": False, "template": template}
            yield {"metadata": {"name": job["metadata"]["name"]}, "spec": change}


def _has_ended(job: Object) -> bool:
    conditions = job["status"].get("conditions", ())
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)


def _requested(job: Object, name: str) -> Any:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    resources = container["resources"]
    return parse_quantity(str({**resources["limits"], **resources["requests"]}.get(name, "0")))
