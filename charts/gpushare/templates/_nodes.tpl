{{- /* Pools of nodes, which of their nodes share GPUs, and what the pods on nodes with GPUs have in common. */ -}}

{{- /* Each pool with all its values: those of devicePlugin, where it has no own. A node selector is not merged. */ -}}
{{- define "gpushare.pools" -}}
{{- if .Values.devicePlugin.enabled -}}
{{- $defaults := omit .Values.devicePlugin "pools" -}}
{{- range .Values.devicePlugin.pools | default (list dict) }}
{{- $pool := mustMergeOverwrite (deepCopy $defaults) . }}
{{- with .nodeSelector }}{{ $_ := set $pool "nodeSelector" . }}{{ end }}
- {{ toJson $pool }}
{{- end }}
{{- end -}}
{{- end -}}

{{- /* The name of an object of a pool. Arguments: the name, the pool. */ -}}
{{- define "gpushare.inPool" -}}
{{ index . 0 }}{{ with (index . 1).name }}-{{ . }}{{ end }}
{{- end -}}

{{- /* The nodes of a pool that share, and those with an unknown mode, which the agent reports. */ -}}
{{- define "gpushare.nodesThatShare" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - {key: ack.node.gpu.schedule, operator: In, values: [cgpu, core_mem, mps, share]}
      - matchExpressions:
          - {key: ack.node.gpu.schedule, operator: NotIn, values: [cgpu, core_mem, mps, share, default, topology]}
          - {key: gpushare, operator: NotIn, values: ["false"]}
          - {key: cgpu, operator: NotIn, values: ["false"]}
{{- end -}}

{{- /*
The nodes of a pool whose labels say that they do not share, or that have lost their mode label. A node that shares in
another pool is left out. Argument: the node selector of the pool.
*/ -}}
{{- define "gpushare.nodesThatShareNoLonger" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      {{- range $label := list "gpushare" "cgpu" }}
      {{- with get $ $label }}
      {{- $mine := dict "key" $label "operator" "In" "values" (list . "false") | toJson }}
      - matchExpressions:
          - {{ $mine }}
          - {key: ack.node.gpu.schedule, operator: In, values: [default, topology]}
      {{- range $older := list "gpushare" "cgpu" }}
      - matchExpressions:
          - {{ $mine }}
          - {key: {{ $older }}, operator: In, values: ["false"]}
          - {key: ack.node.gpu.schedule, operator: NotIn, values: [cgpu, core_mem, mps, share]}
      {{- end }}
      {{- end }}
      {{- end }}
      {{- if hasKey . "ack.node.gpu.schedule" }}
      - matchExpressions:
          - {key: ack.node.gpu.schedule, operator: In, values: [default, topology]}
      {{- end }}
      # No mode label any more; it has GPUs if an agent, or ACK, has counted them.
      - matchExpressions:
          - {key: gpushare, operator: NotIn, values: ["true"]}
          - {key: cgpu, operator: NotIn, values: ["true"]}
          - {key: ack.node.gpu.schedule, operator: NotIn, values: [cgpu, core_mem, mps, share]}
          - {key: aliyun.accelerator/nvidia_count, operator: Exists}
{{- end -}}

{{- /*
A DaemonSet, without the spec of its pods. Arguments: root, name, component, values of the component; labels, by which it
is selected besides those of the component; keep, as for metadata. Without maxUnavailable, a pod is replaced only when it
is deleted.
*/ -}}
{{- define "gpushare.daemonSet" -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  {{- include "gpushare.metadata" . | nindent 2 }}
spec:
  selector:
    matchLabels:
      {{- merge (include "gpushare.selector" .component | fromYaml) (default dict .labels) | toYaml | nindent 6 }}
  updateStrategy:
    {{- with .values.maxUnavailable }}
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: {{ . }}}
    {{- else }}
    type: OnDelete
    {{- end }}
  template:
    metadata:
      {{- include "gpushare.podMetadata" . | nindent 6 }}
{{- end -}}

{{- /* The folder of the driver, in which a driver container may mount later. Argument: its path, or nothing. */ -}}
{{- define "gpushare.driverRootMount" -}}
{{- with . -}}
- {name: driver-root, mountPath: {{ quote . }}, readOnly: true, mountPropagation: HostToContainer}
{{- end -}}
{{- end -}}

{{- define "gpushare.driverRootVolume" -}}
{{- with . -}}
- {name: driver-root, hostPath: {path: {{ quote . }}, type: DirectoryOrCreate}}
{{- end -}}
{{- end -}}
