{{- define "keyhouse.webhookSelector" -}}
app.kubernetes.io/name: keyhouse-webhook
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The fields of both webhooks. A member of clientConfig follows. */}}
{{- define "keyhouse.webhook" -}}
admissionReviewVersions: [v1]
sideEffects: None
# Without an answer, a pod with a label is refused: it would start without its variables.
failurePolicy: Fail
timeoutSeconds: 10
matchPolicy: Equivalent
namespaceSelector: {{- toYaml .Values.injection.namespaceSelector | nindent 2 }}
clientConfig:
  service:
    name: {{ include "keyhouse.name" . }}-webhook
    namespace: {{ .Release.Namespace }}
    port: {{ .Values.injection.webhook.port }}
{{- end }}
