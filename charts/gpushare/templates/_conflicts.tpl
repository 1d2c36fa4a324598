{{- /*
CEL of the admission policies about one container `c` of a pod: what containers declare that would undo their share of a
GPU (gpushare/model/conflicts.py), and how a policy denies or warns of it.
*/ -}}

{{- /*
What a container has, its effect, the remedy, and the condition that it has no such conflict. Runtimes resolve paths, so
`//` and `/./` are one slash.
*/ -}}
{{- define "gpushare.conflicts" -}}
deviceMounts:
  has: a mount on /var/run/nvidia-container-devices or /run/nvidia-container-devices
  which: may add a GPU to the GPU of the device plugin
  remedy: mount the volume elsewhere
  holds: c.?volumeMounts.orValue([]).all(m, !m.mountPath.matches('^/*([.]/+)*(var/+([.]/+)*run/+([.]/+)*nvidia-container-devices|run/+([.]/+)*nvidia-container-devices)(/.*)?$'))
guarantee:
  has: a variable NVIDIA_GPU_MEMORY_REQUEST or NVIDIA_GPU_MEMORY_LIMIT
  which: makes drivers from release 615 on reserve memory of the GPU for this container, also memory of other pods
  remedy: remove it from the pod; aliyun.com/gpu-mem is its limit
  holds: c.?env.orValue([]).all(e, !(e.name in ['NVIDIA_GPU_MEMORY_REQUEST', 'NVIDIA_GPU_MEMORY_LIMIT']))
preload:
  has: a mount on /etc/ld.so.preload
  which: hides the file that loads the isolation library
  remedy: >-
    exclude the pod from the webhook that adds the mount (Datadog: label admission.datadoghq.com/enabled="false";
    Dynatrace: annotation oneagent.dynatrace.com/inject="false"), or give the pod a whole GPU
  holds: c.?volumeMounts.orValue([]).all(m, !m.mountPath.matches('^/*([.]/+)*(etc/+([.]/+)*ld[.]so[.]preload)(/.*)?$'))
files:
  has: a mount on /.gpushare or /.gpushare-library
  which: hides files of gpushare
  remedy: mount the volume elsewhere
  holds: c.?volumeMounts.orValue([]).all(m, !m.mountPath.matches('^/*([.]/+)*([.]gpushare|[.]gpushare-library)(/.*)?$'))
driver:
  has: a variable LD_PRELOAD with libcuda.so
  which: makes programs call the driver instead of the isolation library
  remedy: remove libcuda.so from its value, programs find the driver without it
  holds: c.?env.orValue([]).all(e, !(e.name in ['LD_PRELOAD']) || !e.?value.orValue('').contains('libcuda.so'))
{{- end -}}

{{- /* That the container requests units. */ -}}
{{- define "gpushare.hasUnits" -}}
'aliyun.com/gpu-mem' in c.?resources.?limits.orValue({})
{{- end -}}

{{- /* That it requests units or a compute share. */ -}}
{{- define "gpushare.hasUnitsOrCores" -}}
['aliyun.com/gpu-mem', 'aliyun.com/gpu-core.percentage'].exists(r, r in c.?resources.?limits.orValue({}))
{{- end -}}

{{- /* A warning for a container. Arguments: what must hold, the text. The message names the first such container. */ -}}
{{- define "gpushare.warning" -}}
{{- $holds := index . 0 -}}
- expression: {{ printf "variables.containers.all(c, %s)" $holds | quote }}
  messageExpression: {{ printf "'container ' + variables.containers.filter(c, !(%s))[0].name + ': %s'" $holds (index . 1) | quote }}
{{- end -}}

{{- /* What pods of tenants may not have. Arguments: what, the condition that they do not have it. */ -}}
{{- define "gpushare.podRule" -}}
- expression: {{ printf "!variables.starts || %s" (index . 1) | quote }}
  messageExpression: {{ printf "'pods of tenants may not have %s'" (index . 0) | quote }}
  reason: Forbidden
{{- end -}}

{{- /* What containers of tenants may not. Arguments: what, the condition that they do not; a remedy, or nothing. */ -}}
{{- define "gpushare.containerRule" -}}
{{- $holds := index . 1 -}}
{{- $remedy := index . 2 | empty | ternary "" (printf " + '; %s'" (index . 2)) -}}
- expression: {{ printf "variables.containers.all(c, %s)" $holds | quote }}
  messageExpression: {{ printf "'containers of tenants may not %s: ' + variables.containers.filter(c, !(%s)).map(c, c.name).join(', ')%s" (index . 0) $holds $remedy | quote }}
  reason: Forbidden
{{- end -}}

{{- /* The rules of a policy for new pods, and for what makes pods. */ -}}
{{- define "gpushare.podsAndWorkloads" -}}
- {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
- {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, statefulsets, daemonsets]}
- {apiGroups: [batch], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [jobs, cronjobs]}
{{- end -}}

{{- /* The annotations of a pod, or of the pods of a workload. */ -}}
{{- define "gpushare.annotationsOf" -}}
(has(object.spec.jobTemplate) ? object.spec.jobTemplate.spec.template.?metadata : has(object.spec.template) ? object.spec.template.?metadata : optional.of(object.metadata)).?annotations.orValue({})
{{- end -}}

{{- /* The spec of a pod, or of the pods of a workload. */ -}}
{{- define "gpushare.podOf" -}}
has(object.spec.jobTemplate) ? object.spec.jobTemplate.spec.template.spec : has(object.spec.template) ? object.spec.template.spec : object.spec
{{- end -}}
