{{- /* The resources and the conditions of the policy that changes pods. */}}
{{- define "keyhouse.podRules" -}}
- apiGroups: [""]
  apiVersions: [v1]
  operations: [CREATE]
  resources: [pods]
  scope: Namespaced
{{- end }}

{{- define "keyhouse.podConditions" -}}
- name: has-a-label
  expression: >-
    has(object.metadata.labels) &&
    ("keyhouse/marble" in object.metadata.labels || "marblerun/marbletype" in object.metadata.labels)
{{- end }}

{{- /* The policy that changes pods: an object for the API server, or a file for the webhook. */}}
{{- define "keyhouse.mutatingPolicy" -}}
{{- $resources := include "keyhouse.workloadResources" . | fromYaml }}
{{- $root := .Values.injection.trust.rootCertificate }}
{{- $bundle := .Values.injection.trust.bundle }}
{{- $launcher := .Values.injection.launcher }}
{{- $change := dict "resources" $resources "launcher" $launcher.repository }}
{{- $annotation := dict "root.pem" "metadata.annotations['keyhouse/root-certificate']" }}
{{- $files := merge (dict "uuid" "metadata.uid") (ternary $annotation (dict) (ne $root "")) }}
{{- $suffixes := list "TYPE" "COORDINATOR_ADDR" "DNS_NAMES" "UUID_FILE" }}
apiVersion: {{ .Values.injection.apiVersion }}
kind: MutatingAdmissionPolicy
metadata:
  name: {{ include "keyhouse.policyName" . }}
  labels: {{- include "keyhouse.labels" . | nindent 4 }}
spec:
  failurePolicy: Fail
  # A second invocation would add the volume a second time.
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: {{- include "keyhouse.podRules" . | nindent 6 }}
  matchConditions: {{- include "keyhouse.podConditions" . | nindent 4 }}
  variables:
    - {name: pod, expression: object}
    {{- include "keyhouse.labelVariables" . | nindent 4 }}
    - name: injectsResources
      expression: >-
        !("keyhouse/resources" in variables.labels && variables.labels["keyhouse/resources"] == "disabled") &&
        !("marblerun/resource-injection" in variables.labels &&
          variables.labels["marblerun/resource-injection"] == "disabled")
    - name: values
      expression: >-
        {
          "TYPE": variables.marble,
          "COORDINATOR_ADDR": "{{ include "keyhouse.name" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.meshPort }}",
          "DNS_NAMES": variables.marble.matches("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$") ?
            variables.marble + "," + variables.marble + "." + request.namespace + "," +
            variables.marble + "." + request.namespace + ".svc" : "localhost",
          "UUID_FILE": "/run/keyhouse/uuid"
        }
    # Both spellings of each variable: a workload of MarbleRun reads only EDG_.
    - name: environment
      expression: >-
        [
          {{- range $prefix := list "KEYHOUSE_MARBLE_" "EDG_MARBLE_" }}
          {{- range $suffix := $suffixes }}
          ["{{ $prefix }}{{ $suffix }}", "{{ $suffix }}", variables.values["{{ $suffix }}"]],
          {{- end }}
          {{- end }}
        ]
  mutations:
    - patchType: ApplyConfiguration
      applyConfiguration:
        expression: >-
          Object{
            {{- if $root }}
            metadata: Object.metadata{annotations: {"keyhouse/root-certificate": {{ $root | quote }}}},
            {{- end }}
            spec: Object.spec{
              containers: object.spec.containers
                .filter(c, variables.selected == "" || c.name == variables.selected)
                .map(c, {{ include "keyhouse.containerChange" (merge (dict "list" "containers") $change) | nindent 16 }})
            }
          }
    - patchType: ApplyConfiguration
      applyConfiguration:
        expression: >-
          Object{
            spec: Object.spec{
              initContainers: variables.initContainers.filter(c, c.name == variables.selected)
                .map(c, {{ include "keyhouse.containerChange" (merge (dict "list" "initContainers") $change) | nindent 16 }})
            }
          }
    # The API server applies no lists without names: items of volumes, tolerations, commands.
    - patchType: JSONPatch
      jsonPatch:
        expression: >-
          (has(object.spec.volumes) ? [] : [JSONPatch{op: "add", path: "/spec/volumes", value: []}]) +
          (has(object.spec.volumes) && object.spec.volumes.exists(v, v.name == "keyhouse-marble") ? [] : [
            JSONPatch{op: "add", path: "/spec/volumes/-", value: Object.spec.volumes{
              name: "keyhouse-marble",
              projected: Object.spec.volumes.projected{sources: [
                Object.spec.volumes.projected.sources{
                  downwardAPI: Object.spec.volumes.projected.sources.downwardAPI{items: [
                    {{- range $file, $field := $files }}
                    Object.spec.volumes.projected.sources.downwardAPI.items{
                      path: "{{ $file }}",
                      fieldRef: Object.spec.volumes.projected.sources.downwardAPI.items.fieldRef{
                        fieldPath: "{{ $field }}"
                      }
                    },
                    {{- end }}
                  ]}
                },
                {{- if $bundle }}
                Object.spec.volumes.projected.sources{
                  clusterTrustBundle: Object.spec.volumes.projected.sources.clusterTrustBundle{
                    name: {{ $bundle | quote }}, path: "root.pem"
                  }
                },
                {{- end }}
              ]}
            }}
          ])
          {{- if $launcher.repository }} +
          (variables.launcher ? [
            JSONPatch{op: "add", path: "/spec/volumes/-", value: Object.spec.volumes{
              name: "keyhouse-launcher",
              image: Object.spec.volumes.image{
                reference: "{{ $launcher.repository }}@{{ $launcher.digest }}", pullPolicy: "IfNotPresent"
              }
            }}
          ] : [])
          {{- end }}
    {{- if $resources }}
    - patchType: JSONPatch
      jsonPatch:
        expression: >-
          !variables.injectsResources ? [] :
          (has(object.spec.tolerations) ? [] : [JSONPatch{op: "add", path: "/spec/tolerations", value: []}]) + (
          [{{ range $name, $_ := $resources }}"{{ $name }}", {{ end }}]
            .filter(key, !has(object.spec.tolerations) || !object.spec.tolerations.exists(t, has(t.key) && t.key == key))
            .map(key, JSONPatch{op: "add", path: "/spec/tolerations/-", value: Object.spec.tolerations{
              key: key, operator: "Exists", effect: "NoSchedule"
            }})
          )
    {{- end }}
    {{- if $launcher.repository }}
    # The expression language has no index of a list, so the indices are constants.
    - patchType: JSONPatch
      jsonPatch:
        expression: >-
          !variables.launcher ? [] :
          [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
            .filter(i, i < size(object.spec.containers) && has(object.spec.containers[i].command) &&
              (variables.selected == "" || object.spec.containers[i].name == variables.selected))
            .map(i, JSONPatch{
              op: "add",
              path: "/spec/containers/" + string(i) + "/command",
              value: [{{ range $word := $launcher.command }}{{ $word | quote }}, {{ end }}"--"] + object.spec.containers[i].command
            })
    {{- end }}
{{- end }}
