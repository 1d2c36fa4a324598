"""Static pods of kube-scheduler as kubeadm writes them since 1.22, in the YAML layout of kubeadm."""

VERSIONS = ("1.22", "1.23", "1.29", "1.36")
_FIRST_NEW_REGISTRY = 25
_LAST_INSECURE_PORT = 22
_FIRST_READINESS = 31


def scheduler(version: str, *flags: str) -> str:
    """The manifest's text; ``flags`` come after kubeadm's own."""
    minor = int(version.partition(".")[2])
    registry = "registry.k8s.io" if minor >= _FIRST_NEW_REGISTRY else "k8s.gcr.io"
    port = ["--port=0"] if minor <= _LAST_INSECURE_PORT else []
    command = "".join(f"    - {argument}\n" for argument in ("kube-scheduler", *_FLAGS, *port, *flags))
    probes = _NEW_PROBES if minor >= _FIRST_READINESS else _OLD_PROBES
    return _HEAD + command + _IMAGE.format(registry=registry, version=version) + probes + _TAIL


_FLAGS = (
    "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
    "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
    "--bind-address=127.0.0.1",
    "--kubeconfig=/etc/kubernetes/scheduler.conf",
    "--leader-elect=true",
)
_HEAD = """apiVersion: v1
kind: Pod
metadata:
  creationTimestamp: null
  labels:
    component: kube-scheduler
    tier: control-plane
  name: kube-scheduler
  namespace: kube-system
spec:
  containers:
  - command:
"""
_IMAGE = """    image: {registry}/kube-scheduler:v{version}.4
    imagePullPolicy: IfNotPresent
"""
_OLD_PROBES = """    livenessProbe:
      failureThreshold: 8
      httpGet:
        host: 127.0.0.1
        path: /healthz
        port: 10259
        scheme: HTTPS
      initialDelaySeconds: 10
      periodSeconds: 10
      timeoutSeconds: 15
"""
_NEW_PROBES = """    livenessProbe:
      failureThreshold: 8
      httpGet:
        host: 127.0.0.1
        path: /livez
        port: probe-port
        scheme: HTTPS
      initialDelaySeconds: 10
      periodSeconds: 10
      timeoutSeconds: 15
    ports:
    - containerPort: 10259
      name: probe-port
      protocol: TCP
    readinessProbe:
      failureThreshold: 3
      httpGet:
        host: 127.0.0.1
        path: /readyz
        port: probe-port
        scheme: HTTPS
      periodSeconds: 1
      timeoutSeconds: 15
"""
_TAIL = """    name: kube-scheduler
    resources:
      requests:
        cpu: 100m
    volumeMounts:
    - mountPath: /etc/kubernetes/scheduler.conf
      name: kubeconfig
      readOnly: true
  hostNetwork: true
  priority: 2000001000
  priorityClassName: system-node-critical
  securityContext:
    seccompProfile:
      type: RuntimeDefault
  volumes:
  - hostPath:
      path: /etc/kubernetes/scheduler.conf
      type: FileOrCreate
    name: kubeconfig
status: {}
"""
