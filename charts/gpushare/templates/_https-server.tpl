{{- /* A server that the API server or users call: metrics API, board, webhook. */ -}}

{{- /*
Deployment, Service and disruption budget, without the account. Arguments: root, name, values; image, its name in
`images`; key, of the section; command, without the flags of the options; options, their name in _options.tpl; port,
opsPort; replicas; env, a list; hasToken, whether it calls the API server; madeSecret, the Secret that a Job of the chart
fills, if the values name none.
*/ -}}
{{- define "gpushare.httpsServer" -}}
{{- $values := .values -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "gpushare.metadata" (dict "root" .root "name" .name "component" .name) | nindent 2 }}
spec:
  replicas: {{ .replicas }}
  selector:
    matchLabels:
      {{- include "gpushare.selector" .name | nindent 6 }}
  template:
    metadata:
      {{- include "gpushare.podMetadata" (dict "root" .root "component" .name "values" $values) | nindent 6 }}
    spec:
      serviceAccountName: {{ .name }}
      {{- if not .hasToken }}
      automountServiceAccountToken: false
      {{- end }}
      {{- include "gpushare.placement" (list .root $values) | nindent 6 }}
      affinity:
        {{- with $values.affinity }}
        {{- toYaml . | nindent 8 }}
        {{- else }}
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                labelSelector:
                  matchLabels:
                    {{- include "gpushare.selector" .name | nindent 20 }}
                topologyKey: kubernetes.io/hostname
        {{- end }}
      {{- include "gpushare.zoneSpread" (list .name .replicas) | nindent 6 }}
      securityContext:
        {{- include "gpushare.nonRoot" . | nindent 8 }}
        # The files of the Secret belong to the group.
        fsGroup: 65532
      containers:
        - name: {{ .name }}
          {{- include "gpushare.image" (list .root .ownImage .image (print .key ".image")) | nindent 10 }}
          command:
            {{- toYaml .command | nindent 12 }}
            - --tls-cert=/etc/gpushare/tls/tls.crt
            - --tls-key=/etc/gpushare/tls/tls.key
            {{- include "gpushare.options" (list $values .options) | nindent 12 }}
          env:
            - name: PORT
              value: {{ quote .port }}
            - name: OPS_PORT
              value: {{ quote .opsPort }}
            {{- with .env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
            {{- with $values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - {name: https, containerPort: {{ .port }}}
            - {name: ops, containerPort: {{ .opsPort }}}
          {{- include "gpushare.probes" dict | nindent 10 }}
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            {{- include "gpushare.confined" . | nindent 12 }}
          volumeMounts:
            - {name: tls, mountPath: /etc/gpushare/tls, readOnly: true}
      volumes:
        - name: tls
          secret: {secretName: {{ default .madeSecret $values.tlsSecret | quote }}, defaultMode: 0440}
---
apiVersion: v1
kind: Service
metadata:
  {{- include "gpushare.metadata" (dict "root" .root "name" .name "component" .name) | nindent 2 }}
spec:
  type: ClusterIP
  ports:
    - {name: https, port: 443, targetPort: {{ .port }}}
  selector:
    {{- include "gpushare.selector" .name | nindent 4 }}
{{- if gt (int .replicas) 1 }}
---
{{ include "gpushare.disruptionBudget" (dict "root" .root "name" .name) }}
{{- end }}
{{- end -}}

{{- /* The annotation by which cert-manager writes the CA certificates. Argument: values of the server. */ -}}
{{- define "gpushare.injectCa" -}}
{{- with .injectCaFrom }}cert-manager.io/inject-ca-from: {{ . }}{{ end -}}
{{- end -}}

{{- /* The CA certificates, unless cert-manager or the Job of the chart writes them. Argument: values of the server. */ -}}
{{- define "gpushare.caBundle" -}}
{{- if .caBundle }}caBundle: {{ b64enc .caBundle | quote }}{{ end -}}
{{- end -}}
