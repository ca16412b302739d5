{{- /* The EPC of a workload, by the resource of the vendor's device plugin, as a map. */}}
{{- define "keyhouse.workloadResources" -}}
{{- if .Values.injection.resources }}
{{- toYaml .Values.injection.resources }}
{{- else if .Values.sgx.enabled }}
{{- $epc := .Values.injection.epcMiB }}
{{- if .Values.sgx.resourceKey }}
{{ .Values.sgx.resourceKey }}: "{{ $epc }}"
{{- else if eq .Values.sgx.vendor "azure" }}
kubernetes.azure.com/sgx_epc_mem_in_MiB: "{{ $epc }}"
{{- else if eq .Values.sgx.vendor "alibaba" }}
alibabacloud.com/sgx_epc_MiB: "{{ $epc }}"
{{- else }}
sgx.intel.com/enclave: "1"
sgx.intel.com/epc: "{{ $epc }}Mi"
{{- end }}
{{- end }}
{{- end }}

{{- /* The same for the coordinator. */}}
{{- define "keyhouse.coordinatorResources" -}}
{{- if .Values.sgx.resourceKey }}
{{- printf "%s: %d" .Values.sgx.resourceKey (int .Values.sgx.epcMiB) }}
{{- else if eq .Values.sgx.vendor "azure" }}
{{- printf "kubernetes.azure.com/sgx_epc_mem_in_MiB: %d" (int .Values.sgx.epcMiB) }}
{{- else if eq .Values.sgx.vendor "alibaba" }}
{{- printf "alibabacloud.com/sgx_epc_MiB: %d" (int .Values.sgx.epcMiB) }}
{{- else }}
{{- toYaml .Values.sgx.resources }}
{{- end }}
{{- end }}

{{- /* A policy is not in a namespace, so its name contains the namespace of the release. */}}
{{- define "keyhouse.policyName" -}}
{{- printf "%s.%s" (include "keyhouse.name" .) .Release.Namespace }}
{{- end }}

{{- /* Variables of both policies. */}}
{{- define "keyhouse.labelVariables" -}}
- name: labels
  expression: >-
    has(variables.pod.metadata) && has(variables.pod.metadata.labels) ? variables.pod.metadata.labels : {}
- name: marble
  expression: >-
    string("keyhouse/marble" in variables.labels ? variables.labels["keyhouse/marble"] :
    "marblerun/marbletype" in variables.labels ? variables.labels["marblerun/marbletype"] : "")
- name: selected
  expression: >-
    string("keyhouse/container" in variables.labels ? variables.labels["keyhouse/container"] :
    "marblerun/marblecontainer" in variables.labels ? variables.labels["marblerun/marblecontainer"] : "")
- name: launcher
  expression: >-
    "keyhouse/launcher" in variables.labels && variables.labels["keyhouse/launcher"] == "enabled"
- name: initContainers
  expression: "has(variables.pod.spec.initContainers) ? variables.pod.spec.initContainers : []"
{{- end }}

{{- /* A quantity of the pod itself has precedence; "limits" before "requests". */}}
{{- define "keyhouse.quantity" -}}
has(c.resources) && has(c.resources.limits) && "{{ .name }}" in c.resources.limits ?
  c.resources.limits["{{ .name }}"] :
  has(c.resources) && has(c.resources.requests) && "{{ .name }}" in c.resources.requests ?
  c.resources.requests["{{ .name }}"] : "{{ .value }}"
{{- end }}

{{- /* The change of one container: variables, the mount of its UUID, resources. */}}
{{- define "keyhouse.containerChange" -}}
{{- $type := printf "Object.spec.%s" .list -}}
{{ $type }}{
  name: c.name,
  env: variables.environment.filter(s, !has(c.env) || !c.env.exists(e,
      e.name == "KEYHOUSE_MARBLE_" + s[1] || e.name == "EDG_MARBLE_" + s[1]))
    .map(s, {{ $type }}.env{name: s[0], value: s[2]}),
  {{- if .resources }}
  resources: !variables.injectsResources ? {{ $type }}.resources{} : {{ $type }}.resources{
    {{- range $field := list "limits" "requests" }}
    {{ $field }}: {
      {{- range $name, $value := $.resources }}
      "{{ $name }}": {{ include "keyhouse.quantity" (dict "name" $name "value" $value) | nindent 8 }},
      {{- end }}
    },
    {{- end }}
  },
  {{- end }}
  volumeMounts: has(c.volumeMounts) && c.volumeMounts.exists(m, m.mountPath == "/run/keyhouse") ? [] : [
    {{ $type }}.volumeMounts{name: "keyhouse-marble", mountPath: "/run/keyhouse", readOnly: true}]
    {{- if .launcher }} + (variables.launcher ? [
    {{ $type }}.volumeMounts{name: "keyhouse-launcher", mountPath: "/opt/keyhouse", readOnly: true}] : [])
    {{- end }}
}
{{- end }}

{{- /* The pod, or the template of pods, of an object in the expression language: a list of one. */}}
{{- define "keyhouse.template" -}}
(has({{ . }}.spec.jobTemplate) ? [{{ . }}.spec.jobTemplate.spec.template] : has({{ . }}.spec.template) ? [{{ . }}.spec.template] : [{{ . }}])
{{- end }}
