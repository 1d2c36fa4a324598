{{- /* The stock kube-scheduler of exposure sidecar: its configuration and its container. */ -}}

{{- define "gpushare.schedulerConfig" -}}
{{- $extender := .Values.extender -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: {{ $extender.lease }}
  {{- if $extender.lease }}
  resourceName: {{ quote $extender.scheduler.name }}
  {{- end }}
# With less, the extender may see only full nodes.
percentageOfNodesToScore: 100
profiles:
  - schedulerName: {{ quote $extender.scheduler.name }}
extenders:
  - urlPrefix: http://127.0.0.1:12345/gpushare-scheduler
    filterVerb: filter
    preemptVerb: preempt
    prioritizeVerb: prioritize
    # With less, the built-in scores that spread pods could outvote the extender.
    weight: 5
    bindVerb: bind
    enableHTTPS: false
    httpTimeout: 5s
    nodeCacheCapable: true
    managedResources:
      - name: aliyun.com/gpu-mem
        ignoredByScheduler: false
      - name: aliyun.com/gpu-core.percentage
        ignoredByScheduler: false
    ignorable: false
{{- end -}}

{{- define "gpushare.schedulerContainer" -}}
{{- $scheduler := .Values.extender.scheduler -}}
- name: kube-scheduler
  {{- $isDefault := not (or $scheduler.image.tag $scheduler.image.digest) }}
  {{- $version := semver .Capabilities.KubeVersion.Version }}
  {{- $first := dict "tag" (printf "v%d.%d.0" $version.Major $version.Minor) }}
  {{- $image := ternary (merge $first $scheduler.image) $scheduler.image $isDefault }}
  {{- include "gpushare.image" (list . $image "scheduler" "extender.scheduler.image" $isDefault) | nindent 2 }}
  command:
    - kube-scheduler
    - --config=/etc/gpushare/scheduler/config.yaml
    - --secure-port=10259
    {{- include "gpushare.extraArgs" $scheduler | nindent 4 }}
  {{- with $scheduler.extraEnv }}
  env:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  startupProbe:
    httpGet: {path: /healthz, port: 10259, scheme: HTTPS}
    periodSeconds: 1
    timeoutSeconds: 3
    failureThreshold: 60
  livenessProbe:
    # Of several, one whose extender has failed must not lead: its restart releases the Lease.
    {{- if gt (int .Values.extender.replicas) 1 }}
    httpGet: {path: /healthz, port: 12346}
    {{- else }}
    httpGet: {path: /healthz, port: 10259, scheme: HTTPS}
    {{- end }}
    periodSeconds: 10
    timeoutSeconds: 3
    failureThreshold: 3
  readinessProbe:
    httpGet: {path: /healthz, port: 10259, scheme: HTTPS}
    periodSeconds: 5
    timeoutSeconds: 3
    failureThreshold: 3
  resources:
    {{- toYaml $scheduler.resources | nindent 4 }}
  securityContext:
    {{- include "gpushare.confined" . | nindent 4 }}
  volumeMounts:
    - {name: scheduler, mountPath: /etc/gpushare/scheduler, readOnly: true}
{{- end -}}
