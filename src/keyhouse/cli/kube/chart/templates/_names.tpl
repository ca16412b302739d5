{{- define "keyhouse.name" -}}
{{- if contains "keyhouse" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-keyhouse" .Release.Name | trunc 41 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "keyhouse.selector" -}}
app.kubernetes.io/name: keyhouse
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "keyhouse.labels" -}}
{{ include "keyhouse.selector" . }}
{{ include "keyhouse.moreLabels" . }}
{{- end }}

{{- /* All labels but those that the Services and the NetworkPolicy select the coordinator by. */}}
{{- define "keyhouse.moreLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The ports of the metrics, by name: of each coordinator in a pod. */}}
{{- define "keyhouse.metricsPorts" -}}
metrics: {{ .Values.metrics.port }}
{{- range $more := until (sub (int .Values.store.replicasPerPod) 1 | int) }}
metrics-{{ add $more 2 }}: {{ add $.Values.metrics.port $more 1 }}
{{- end }}
{{- end }}

{{- define "keyhouse.claim" -}}
{{ .Values.persistence.existingClaim | default (printf "data-%s-0" (include "keyhouse.name" .)) }}
{{- end }}
