{{- /* What makes certificates in the cluster: an account that may fill its Secrets, a first Job and a CronJob. */ -}}

{{- /*
Arguments: root; name, of all objects; values, of the section with the placement; schedule; flags of the program; image,
its key in the values as imageKey; secrets, which it fills.
*/ -}}
{{- define "gpushare.certificates" -}}
{{ include "gpushare.account" (dict "root" .root "name" .name) }}
---
{{ include "gpushare.role" (dict "root" .root "kind" "Role" "name" .name) }}
rules:
  - apiGroups: [""]
    resources: [secrets]
    resourceNames: {{ toJson .secrets }}
    # By its name, create allows a server-side apply only.
    verbs: [get, patch, create]
---
{{ include "gpushare.binding" (dict "root" .root "kind" "Role" "name" .name) }}
---
# The pods of a Job cannot be changed, so another content is another Job.
apiVersion: batch/v1
kind: Job
metadata:
  {{- $digest := include "gpushare.certificatesJob" . | sha256sum | trunc 8 }}
  {{- include "gpushare.metadata" (dict "root" .root "name" (printf "%s-%s" .name $digest) "component" .name) | nindent 2 }}
spec:
  {{- include "gpushare.certificatesJob" . | nindent 2 }}
---
apiVersion: batch/v1
kind: CronJob
metadata:
  {{- include "gpushare.metadata" (dict "root" .root "name" .name "component" .name) | nindent 2 }}
spec:
  schedule: {{ .schedule | quote }}
  concurrencyPolicy: Forbid
  successfulJobsHistoryLimit: 1
  failedJobsHistoryLimit: 1
  jobTemplate:
    spec:
      {{- include "gpushare.certificatesJob" . | nindent 6 }}
{{- end -}}

{{- define "gpushare.certificatesJob" -}}
# Ends a run that hangs, but not one whose image is pulled slowly.
activeDeadlineSeconds: 3600
template:
  metadata:
    {{- include "gpushare.podMetadata" (dict "root" .root "component" .name "values" .values) | nindent 4 }}
  spec:
    serviceAccountName: {{ .name }}
    restartPolicy: OnFailure
    {{- include "gpushare.placement" (list .root .values) | nindent 4 }}
    securityContext:
      {{- include "gpushare.nonRoot" .root | nindent 6 }}
    containers:
      - name: {{ .name }}
        {{- include "gpushare.image" (list .root .image "cli" .imageKey) | nindent 8 }}
        command: {{ toJson (concat (list "gpushare" "certificates") .flags) }}
        terminationMessagePolicy: FallbackToLogsOnError
        resources:
          requests: {cpu: 100m, memory: 128Mi}
          limits: {cpu: 100m, memory: 128Mi}
        securityContext:
          {{- include "gpushare.confined" .root | nindent 10 }}
{{- end -}}
