{{- /*
Names, labels, images and flags. The names of what the services, the kubectl plugins, the admission policies or the
Aliyun pair find by name are fixed, and so is app=gpushare; only other names start with gpushare.fullname.
*/ -}}

{{- define "gpushare.name" -}}
{{- .Values.nameOverride | default .Chart.Name -}}
{{- end -}}

{{- /* Prefix of the names that may differ: dashboards, rules, Prometheus, the role of viewers. */ -}}
{{- define "gpushare.fullname" -}}
{{- .Values.fullnameOverride | default (include "gpushare.name" .) -}}
{{- end -}}

{{- /* The labels by which Services and DaemonSets select pods. Argument: the component. */ -}}
{{- define "gpushare.selector" -}}
app: gpushare
component: {{ . }}
{{- end -}}

{{- /* The labels that Helm users expect, which no selector uses. Argument: the root. */ -}}
{{- define "gpushare.instance" -}}
app.kubernetes.io/name: {{ include "gpushare.name" . | quote }}
app.kubernetes.io/instance: {{ quote .Release.Name }}
{{- end -}}

{{- define "gpushare.release" -}}
{{ include "gpushare.instance" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /*
Metadata of an object. Arguments: root, name; component, for the labels by which it is selected; labels, annotations;
keep, for an object that stays after an uninstall; clusterScoped; foreign, for an object that may have a label `app` of
its owner.
*/ -}}
{{- define "gpushare.metadata" -}}
{{- $own := ternary dict (dict "app" "gpushare") (default false .foreign) -}}
{{- with .component }}{{ $own = include "gpushare.selector" . | fromYaml }}{{ end -}}
{{- $release := include "gpushare.release" .root | fromYaml -}}
{{- $keep := ternary (dict "helm.sh/resource-policy" "keep") dict (default false .keep) -}}
name: {{ quote .name }}
{{- if not .clusterScoped }}
namespace: {{ .root.Release.Namespace }}
{{- end }}
labels:
  {{- merge dict (default dict .labels) $own $release .root.Values.commonLabels | toYaml | nindent 2 }}
{{- with merge dict $keep (default dict .annotations) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /*
Metadata of the pods of a workload. Arguments: root, component, values of the component; labels, annotations.
*/ -}}
{{- define "gpushare.podMetadata" -}}
{{- $own := include "gpushare.selector" .component | fromYaml -}}
{{- $instance := include "gpushare.instance" .root | fromYaml -}}
{{- $values := .values -}}
labels:
  {{- merge dict (default dict .labels) $own $instance $values.podLabels .root.Values.commonLabels | toYaml | nindent 2 }}
{{- with merge dict (default dict .annotations) $values.podAnnotations .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Priority, tolerations, node selector and pull secrets of a pod. Arguments: root, values of the component. */ -}}
{{- define "gpushare.placement" -}}
{{- $values := index . 1 -}}
priorityClassName: {{ quote $values.priorityClassName }}
tolerations: {{ toJson $values.tolerations }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (index . 0).Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /*
The fields image and imagePullPolicy of a container. Arguments: root; the image of a component; its name in `images`,
which is used if the component has no repository; the key, for errors; whether its tag is never moved, so that it needs no
digest.
*/ -}}
{{- define "gpushare.image" -}}
{{- $root := index . 0 -}}
{{- $own := index . 1 -}}
{{- $key := index . 3 -}}
{{- $image := get $root.Values.images (index . 2) -}}
{{- if $own.repository -}}
{{- $image = $own.repository -}}
{{- with $own.tag }}{{ $image = printf "%s:%s" $image . }}{{ end -}}
{{- with $own.digest }}{{ $image = printf "%s@%s" $image . }}{{ end -}}
{{- end -}}
{{- if not $image -}}
{{- fail (printf "%s.repository: missing, and so is images.%s; set one of them, or use the chart of a release" $key (index . 2)) -}}
{{- end -}}
{{- $tags := or $root.Values.allowTags (and (gt (len .) 4) (index . 4)) -}}
{{- if and (not (contains "@sha256:" $image)) (not $tags) -}}
{{- fail (printf "%s: '%s' has no digest (name@sha256:...); allowTags: true allows tags" $key $image) -}}
{{- end -}}
{{- if and (not (contains "@sha256:" $image)) (or (hasSuffix ":latest" $image) (not (contains ":" (base $image)))) -}}
{{- fail (printf "%s: '%s' has no digest and no tag other than latest" $key $image) -}}
{{- end -}}
image: {{ include "gpushare.mirrored" (list $root.Values.registry $image) | quote }}
{{- with $own.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- end -}}

{{- /* The image with the mirror in place of its registry, if there is a mirror. Arguments: the mirror, the image. */ -}}
{{- define "gpushare.mirrored" -}}
{{- $registry := index . 0 -}}
{{- $image := index . 1 -}}
{{- $parts := splitList "/" $image -}}
{{- $host := first $parts -}}
{{- $hasHost := and (gt (len $parts) 1) (or (contains "." $host) (contains ":" $host) (eq $host "localhost")) -}}
{{- if not $registry -}}{{ $image }}
{{- else if $hasHost -}}{{ $registry }}/{{ rest $parts | join "/" }}
{{- else -}}{{ $registry }}/{{ $image }}
{{- end -}}
{{- end -}}

{{- /*
Flags of the options of a service that are set, --like-this=value, then its extraArgs. Arguments: values of the
component; its name in _options.tpl.
*/ -}}
{{- define "gpushare.options" -}}
{{- $values := index . 0 -}}
{{- range $line := include (printf "gpushare.options.%s" (index . 1)) $ | trim | splitList "\n" -}}
{{- $words := append (splitList " " (trim $line)) "" -}}
{{- $key := first $words -}}
{{- $other := index $words 1 -}}
{{- $flag := print "--" (kebabcase $key) -}}
{{- $value := get $values $key -}}
{{- if kindIs "bool" $value }}
{{- if ternary (not $other) (not (empty $other)) $value }}
- {{ ternary $flag $other $value }}
{{- end }}
{{- else if kindIs "slice" $value }}
{{- range $value }}
- {{ printf "%s=%s" (default $flag $other) . | quote }}
{{- end }}
{{- else if ne (toString $value) "" }}
- {{ printf "%s=%s" $flag (kindIs "string" $value | ternary $value (toJson $value)) | quote }}
{{- end -}}
{{- end -}}
{{- include "gpushare.extraArgs" $values -}}
{{- end -}}

{{- /* The extraArgs of a component, last. Argument: its values. */ -}}
{{- define "gpushare.extraArgs" -}}
{{- with .extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /*
The three probes of a container that serves health on its port ops. Arguments: alive and ready, paths; failures, until it
is restarted.
*/ -}}
{{- define "gpushare.probes" -}}
{{- /* It is not restarted while it waits for the API server: that is not a matter of /healthz. */ -}}
startupProbe:
  httpGet: {path: {{ default "/healthz" .alive }}, port: ops}
  periodSeconds: 1
  timeoutSeconds: 3
  failureThreshold: 60
livenessProbe:
  httpGet: {path: {{ default "/healthz" .alive }}, port: ops}
  periodSeconds: 10
  timeoutSeconds: 3
  failureThreshold: {{ default 3 .failures }}
readinessProbe:
  httpGet: {path: {{ default "/readyz" .ready }}, port: ops}
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 3
{{- end -}}

{{- /* Security context of a pod that needs no access to its node. */ -}}
{{- define "gpushare.nonRoot" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- /* Security context of a container, without all privileges that ours do not need. */ -}}
{{- define "gpushare.confined" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end -}}

{{- /* Pods of a component in different zones where that is possible. Arguments: component, replicas. */ -}}
{{- define "gpushare.zoneSpread" -}}
{{- if gt (int (index . 1)) 1 -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "gpushare.selector" (index . 0) | nindent 8 }}
{{- end -}}
{{- end -}}

{{- /* Only nodes with at least one of these labels, "key" or "key=value". Argument: the labels. */ -}}
{{- define "gpushare.nodesWithAny" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      {{- range . }}
      {{- $parts := splitn "=" 2 . }}
      - matchExpressions:
          - key: {{ quote $parts._0 }}
            {{- if contains "=" . }}
            operator: In
            values: [{{ quote $parts._1 }}]
            {{- else }}
            operator: Exists
            {{- end }}
      {{- end }}
{{- end -}}

{{- /* Never two pods of a component on one node. Argument: the component. */ -}}
{{- define "gpushare.apart" -}}
- labelSelector:
    matchLabels:
      {{- include "gpushare.selector" . | nindent 6 }}
  topologyKey: kubernetes.io/hostname
{{- end -}}

{{- define "gpushare.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "gpushare.metadata" . | nindent 2 }}
{{- end -}}

{{- /* A Role or ClusterRole, without its rules. Arguments: root, kind, name. */ -}}
{{- define "gpushare.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  {{- include "gpushare.metadata" (dict "root" .root "name" .name "clusterScoped" (eq .kind "ClusterRole")) | nindent 2 }}
{{- end -}}

{{- /* Binds a Role or ClusterRole to an account. Arguments: root, name; kind, role, account, if not as the name. */ -}}
{{- define "gpushare.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  {{- include "gpushare.metadata" (dict "root" .root "name" .name "clusterScoped" (eq .kind "ClusterRole")) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ default .name .role | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ default .name .account | quote }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{- /* The PodDisruptionBudget of several replicas: one pod at a time. Arguments: root, name. */ -}}
{{- define "gpushare.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "gpushare.metadata" (merge (dict "component" .name) .) | nindent 2 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "gpushare.selector" .name | nindent 6 }}
{{- end -}}

{{- /* The Secret with the certificate of the extender; empty if its port is plain HTTP. */ -}}
{{- define "gpushare.extenderSecret" -}}
{{- if .Values.extender.tlsSecret -}}{{ .Values.extender.tlsSecret }}
{{- else if include "gpushare.makesCertificates" . -}}gpushare-schd-extender-tls
{{- end -}}
{{- end -}}

{{- /* Whether the chart makes certificates. One sidecar is reached on loopback only and has none. */ -}}
{{- define "gpushare.makesCertificates" -}}
{{- $extender := .Values.extender -}}
{{- $isAlone := and (eq $extender.exposure "sidecar") (eq (int $extender.replicas) 1) -}}
{{- if and (eq $extender.tls "stack") (not $extender.tlsSecret) (not $isAlone) -}}true{{- end -}}
{{- end -}}
