{{- /* What the pod standard "restricted" asks of each pod, and of each container. */}}
{{- define "keyhouse.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "keyhouse.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "keyhouse.image" -}}
image: "{{ .repository }}@{{ .digest }}"
imagePullPolicy: {{ .pullPolicy }}
{{- end }}

{{- define "keyhouse.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Where the signed image fixes the arguments, host settings are variables. */}}
{{- define "keyhouse.settings" -}}
{{- if .Values.sgx.enabled }}
env:
  - {name: KEYHOUSE_CLIENT_ADDR, value: ":4433"}
  - {name: KEYHOUSE_MESH_ADDR, value: ":2001"}
  {{- if .Values.metrics.enabled }}
  - {name: KEYHOUSE_METRICS_ADDR, value: ":{{ .Values.metrics.port }}"}
  {{- end }}
{{- else }}
args:
  - serve
  {{- range .Values.arguments }}
  - {{ . | quote }}
  {{- end }}
  # A directory that Keyhouse makes itself (0700): that of the volume is open to its group.
  - --data-dir=/data/state
  - --client-addr=:4433
  - --mesh-addr=:2001
  {{- if .Values.metrics.enabled }}
  - --metrics-addr=:{{ .Values.metrics.port }}
  {{- end }}
  {{- if .Values.startupManifest }}
  - --startup-manifest=/manifest/manifest.json
  {{- end }}
  {{- if .Values.amdCollateral }}
  - --amd-collateral=/amd-collateral
  {{- end }}
{{- if or .Values.host .Values.store.existingSecret }}
env:
{{- end }}
{{- end }}
{{- with .Values.store.existingSecret }}
  - name: KEYHOUSE_STORE
    valueFrom:
      secretKeyRef: {name: {{ . }}, key: url}
  - {name: KEYHOUSE_STORE_STANDBYS, value: {{ $.Values.store.standbys | quote }}}
  {{- if gt (int $.Values.store.replicasPerPod) 1 }}
  - {name: KEYHOUSE_REPLICAS, value: {{ $.Values.store.replicasPerPod | quote }}}
  {{- end }}
{{- end }}
{{- range $name, $value := .Values.host }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
