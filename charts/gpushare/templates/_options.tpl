{{- /*
The options of each service: the keys of its section that are flags if they are set, one per line. A second word is the
flag, if its name is another; of a switch that is on by default, the flag that turns it off.
*/ -}}
{{- define "gpushare.options.extender" -}}
leaseDuration
renewDeadline
retryPeriod
bindTimeout
apiRequestTimeout
eventsPerSecond
placement
shortlist
cgpuPodsPerCard
makeRoom
makeRoomAfter
evictionsPerHour
namespaceEvictionsPerHour
clientNames --client-name
{{- end -}}

{{- define "gpushare.options.webhook" -}}
logLevel
{{- end -}}

{{- define "gpushare.options.devicePlugin" -}}
memoryUnit
deviceListStrategy
deviceIdStrategy
supportedModelsOnly
unifiedMemoryMib
healthCheck --health-check=false
ignoredXids
recoverySeconds
allocateTimeout
legacyFailureEnv
driverRoot
logLevel
queryKubelet
kubeletAddress
kubeletPort
kubeletInsecureTls
timeout
{{- end -}}

{{- define "gpushare.options.isolation" -}}
folder
intervalSeconds
logLevel
{{- end -}}

{{- define "gpushare.options.mps" -}}
intervalSeconds
logLevel
{{- end -}}

{{- define "gpushare.options.exporter" -}}
intervalSeconds
deadlineSeconds
staleSeconds
processIds
dcgmDevices --no-dcgm-devices
driverRoot
logLevel
{{- end -}}

{{- define "gpushare.options.metricsApi" -}}
deadlineSeconds
keepSeconds
logLevel
{{- end -}}

{{- define "gpushare.options.board" -}}
prometheusUrl
prometheusCluster
logLevel
{{- end -}}
