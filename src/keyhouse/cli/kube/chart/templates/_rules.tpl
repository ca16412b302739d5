{{- /* What one value alone cannot show, in words; the rest is in values.schema.json. */}}
{{- define "keyhouse.rules" -}}
{{- if .Values.sgx.enabled }}
{{- if .Values.arguments }}{{ fail "arguments: must be empty with sgx.enabled, the signed image fixes them" }}{{ end }}
{{- if .Values.startupManifest }}{{ fail "startupManifest: must be empty with sgx.enabled, the enclave reads no such file" }}{{ end }}
{{- if .Values.filesSecret }}{{ fail "filesSecret: must be empty with sgx.enabled, files belong into the signed image" }}{{ end }}
{{- if hasKey .Values.host "KEYHOUSE_COLLATERAL" }}{{ fail "host.KEYHOUSE_COLLATERAL: does not reach the enclave: use --pccs or --collateral in the signed image" }}{{ end }}
{{- if and .Values.sgx.aesm.image.repository (not .Values.sgx.pccs.url) (not .Values.sgx.qcnl) }}{{ fail "sgx.pccs.url: must be set with sgx.aesm.image, which asks it for certificates" }}{{ end }}
{{- if and .Values.sgx.aesm.image.repository (not .Values.sgx.aesm.image.digest) }}{{ fail "sgx.aesm.image.digest: must be set" }}{{ end }}
{{- else if not .Values.arguments }}{{ fail "arguments: must name at least --platform, or set sgx.enabled" }}
{{- end }}
{{- if and .Values.sgx.pccs.url (not (and .Values.sgx.enabled .Values.sgx.aesm.image.repository)) }}{{ fail "sgx.pccs.url: is for the AESM in the pod: set sgx.enabled and sgx.aesm.image, or configure the AESM of the nodes" }}{{ end }}
{{- if and .Values.backup.enabled (not .Values.persistence.existingClaim) (eq .Values.persistence.accessMode "ReadWriteOncePod") }}{{ fail "persistence.accessMode: must be ReadWriteOnce or ReadWriteMany with backup.enabled, which mounts the volume too" }}{{ end }}
{{- if .Values.store.existingSecret }}
{{- if and .Values.sgx.enabled (gt (int .Values.store.replicasPerPod) 1) }}{{ fail "store.replicasPerPod: must be 1 with sgx.enabled, an enclave shares no address with others" }}{{ end }}
{{- if not .Values.metrics.enabled }}{{ fail "metrics.enabled: must be true with store.existingSecret, whose pods are probed at /live and /ready" }}{{ end }}
{{- if .Values.persistence.existingClaim }}{{ fail "persistence.existingClaim: must be empty with store.existingSecret, each pod has a volume of its own" }}{{ end }}
{{- if and .Values.backup.enabled (not .Values.backup.storeSecret) }}{{ fail "backup.storeSecret: must be set with backup.enabled and store.existingSecret" }}{{ end }}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.egress) }}{{ fail "networkPolicy.egress: must allow the database, and DNS, with store.existingSecret" }}{{ end }}
{{- else }}
{{- if gt (int .Values.store.replicasPerPod) 1 }}{{ fail "store.replicasPerPod: must be 1 without store.existingSecret" }}{{ end }}
{{- if .Values.backup.storeSecret }}{{ fail "backup.storeSecret: must be empty without store.existingSecret" }}{{ end }}
{{- end }}
{{- if and .Values.injection.trust.rootCertificate .Values.injection.trust.bundle }}{{ fail "injection.trust.bundle: must be empty with injection.trust.rootCertificate, one file has one root" }}{{ end }}
{{- if and .Values.injection.webhook.enabled (not .Values.injection.enabled) }}{{ fail "injection.enabled: must be true with injection.webhook.enabled" }}{{ end }}
{{- if and .Values.injection.launcher.repository (not .Values.injection.launcher.digest) }}{{ fail "injection.launcher.digest: must be set with injection.launcher.repository" }}{{ end }}
{{- if and .Values.sgx.qcnl (not .Values.sgx.aesm.image.repository) }}{{ fail "sgx.qcnl: is for the AESM in the pod: set sgx.aesm.image, or configure the AESM of the nodes" }}{{ end }}
{{- range $name := list "ingress" "tlsRoute" }}
{{- $door := index $.Values $name }}
{{- if and $door.enabled (not $door.hostname) }}{{ fail (printf "%s.hostname: must be set, TLS is passed through by name" $name) }}{{ end }}
{{- end }}
{{- if and .Values.tlsRoute.enabled (not .Values.tlsRoute.parentRefs) }}{{ fail "tlsRoute.parentRefs: must name a Gateway" }}{{ end }}
{{- end }}
