{{- define "keyhouse.name" -}}
{{- if contains "keyhouse" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-keyhouse" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "keyhouse.selector" -}}
app.kubernetes.io/name: keyhouse
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "keyhouse.labels" -}}
{{ include "keyhouse.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
