{{- /* The resources and the conditions of the policy that refuses labels. */}}
{{- define "keyhouse.labelRules" -}}
- {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods], scope: Namespaced}
- apiGroups: [apps]
  apiVersions: [v1]
  operations: [CREATE, UPDATE]
  resources: [deployments, statefulsets, daemonsets]
  scope: Namespaced
- apiGroups: [batch]
  apiVersions: [v1]
  operations: [CREATE, UPDATE]
  resources: [jobs, cronjobs]
  scope: Namespaced
{{- end }}

{{- define "keyhouse.labelConditions" -}}
- name: has-a-label
  expression: >-
    {{ include "keyhouse.template" "object" }}.exists(p, has(p.metadata) && has(p.metadata.labels) &&
    p.metadata.labels.exists(k, k.startsWith("keyhouse/") || k.startsWith("marblerun/")))
# Garbage collection also updates objects. An object with unchanged labels never fails.
- name: labels-changed
  expression: >-
    oldObject == null || {{ include "keyhouse.template" "oldObject" }}.all(p,
    !has(p.metadata) || !has(p.metadata.labels) ||
    {{ include "keyhouse.template" "object" }}[0].metadata.labels != p.metadata.labels)
{{- end }}

{{- /* The policy that refuses labels: an object for the API server, or a file for the webhook. */}}
{{- define "keyhouse.validatingPolicy" -}}
{{- $launcher := .Values.injection.launcher }}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ include "keyhouse.policyName" . }}
  labels: {{- include "keyhouse.labels" . | nindent 4 }}
spec:
  failurePolicy: Fail
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    # The template of a Deployment is refused, too: its pods would be refused where nobody looks.
    resourceRules: {{- include "keyhouse.labelRules" . | nindent 6 }}
  matchConditions: {{- include "keyhouse.labelConditions" . | nindent 4 }}
  variables:
    - name: pod
      expression: {{ printf "%s[0]" (include "keyhouse.template" "object") | quote }}
    {{- include "keyhouse.labelVariables" . | nindent 4 }}
    - name: marbles
      expression: >-
        has(params.data) && "marbles" in params.data ? params.data["marbles"].split("\n") : []
    - name: known
      expression: >-
        ["keyhouse/marble", "keyhouse/container", "keyhouse/resources", "keyhouse/launcher",
         "marblerun/marbletype", "marblerun/marblecontainer", "marblerun/resource-injection"]
    - name: unknown
      expression: >-
        variables.labels.map(k, k).filter(k, !(k in variables.known) &&
        (k.startsWith("keyhouse/") || k.startsWith("marblerun/")))
    # Letters of the label that the name lacks, letters of the name that the label lacks, and the
    # difference of the lengths. The expression language has no loop for an edit distance.
    - name: distances
      expression: >-
        variables.marbles.map(m,
        m.lowerAscii().split("").filter(x, !variables.marble.lowerAscii().contains(x)).size() +
        variables.marble.lowerAscii().split("").filter(x, !m.lowerAscii().contains(x)).size() +
        (m.size() > variables.marble.size() ? m.size() - variables.marble.size() : variables.marble.size() - m.size()))
    - name: containers
      expression: >-
        variables.pod.spec.containers.map(c, c.name) + variables.initContainers.map(c, c.name)
  validations:
    - expression: size(variables.unknown) == 0
      messageExpression: >-
        "the label " + variables.unknown[0] + " is unknown to Keyhouse; known are " + variables.known.join(", ")
    - expression: >-
        !("keyhouse/marble" in variables.labels && "marblerun/marbletype" in variables.labels) ||
        variables.labels["keyhouse/marble"] == variables.labels["marblerun/marbletype"]
      message: "the labels keyhouse/marble and marblerun/marbletype name different marbles: remove one label"
    - expression: >-
        variables.marble != "" || !("keyhouse/marble" in variables.labels || "marblerun/marbletype" in variables.labels ||
        variables.labels.exists(k, k in variables.known))
      message: "the pod has labels for a marble, but no name of a marble: set the label keyhouse/marble"
    - expression: variables.marble == "" || size(variables.marbles) > 0
      message: "the marbles of the manifest are not known yet: run keyhouse kube marbles after manifest set"
    - expression: variables.marble == "" || size(variables.marbles) == 0 || variables.marble in variables.marbles
      messageExpression: >-
        "the manifest has no marble " + variables.marble + "; the nearest marble is " +
        variables.marbles[variables.distances.indexOf(variables.distances.min())]
    - expression: variables.selected == "" || variables.selected in variables.containers
      messageExpression: >-
        "the pod has no container " + variables.selected + "; its containers are " + variables.containers.join(", ")
    - expression: >-
        ["keyhouse/resources", "keyhouse/launcher", "marblerun/resource-injection"].all(k,
        !(k in variables.labels) || variables.labels[k] in ["enabled", "disabled"])
      message: "keyhouse/resources, keyhouse/launcher and marblerun/resource-injection are enabled or disabled"
    {{- if $launcher.repository }}
    - expression: >-
        !variables.launcher || variables.pod.spec.containers.all(c, has(c.command) ||
        (variables.selected != "" && c.name != variables.selected))
      message: >-
        the container needs a command for keyhouse/launcher: the API server does not know the command of an image
    {{- else }}
    - expression: "!variables.launcher"
      message: "the chart has no launcher for keyhouse/launcher: set injection.launcher.repository and digest"
    {{- end }}
{{- end }}
