{{/* Name of an object of the release: (list $ "tts"). */}}
{{- define "e3rg.name" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s" $root.Release.Name (index . 1) -}}
{{- end }}

{{/* Service of a component, the first word of its name: "mllm-face" is served by mllm. */}}
{{- define "e3rg.service" -}}
{{- splitList "-" . | first -}}
{{- end }}

{{/* Labels by which pods are selected: (list $ component). */}}
{{- define "e3rg.selector" -}}
app.kubernetes.io/name: e3rg
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Labels of every object: (list $ component). */}}
{{- define "e3rg.labels" -}}
{{- $root := index . 0 -}}
{{ include "e3rg.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{/* Labels of a pod; policies choose by the service: (list $ component). */}}
{{- define "e3rg.podLabels" -}}
{{ include "e3rg.selector" . }}
e3rg/service: {{ include "e3rg.service" (index . 1) }}
{{- end }}

{{/* Image of the project: (list $ name). */}}
{{- define "e3rg.image" -}}
{{- $root := index . 0 -}}
{{- $image := $root.Values.image -}}
{{- printf "%s/e3rg-%s:%s" (trimSuffix "/" $image.registry) (index . 1) (default $root.Chart.AppVersion $image.tag) -}}
{{- end }}

{{/* A component with its defaults, as YAML: (list $ name). */}}
{{- define "e3rg.component" -}}
{{- $root := index . 0 -}}
{{- mergeOverwrite (deepCopy $root.Values.componentDefaults) (deepCopy (index $root.Values.components (index . 1))) | toYaml -}}
{{- end }}

{{/* Name of a priority class, which the whole cluster shares: (list $ "core"). A class cannot be changed, so that another
     value makes another class. */}}
{{- define "e3rg.priorityClass" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s-%s-%d" $root.Release.Namespace $root.Release.Name (index . 1) (int (index $root.Values.priority (index . 1))) -}}
{{- end }}

{{/* Names of all ServiceAccounts, as a YAML list: one for each kind of pod. */}}
{{- define "e3rg.accounts" -}}
{{- $names := keys .Values.components | sortAlpha -}}
{{- if eq .Values.database.mode "bundled" }}{{ $names = append $names "database" }}{{ end -}}
{{- if eq .Values.objectStore.mode "bundled" }}{{ $names = append $names "store" }}{{ end -}}
{{- append $names "jobs" | toYaml -}}
{{- end }}

{{/* Fails with a message that says what to set, where values contradict each other. */}}
{{- define "e3rg.check" -}}
{{- $values := .Values -}}
{{- if $values.production -}}
{{- if ne $values.database.mode "external" }}{{ fail "production: true refuses the bundled database, one pod without replication; set database.mode=external" }}{{ end -}}
{{- if ne $values.objectStore.mode "external" }}{{ fail "production: true refuses the bundled object store, one pod without replication; set objectStore.mode=external" }}{{ end -}}
{{- if eq $values.tls.mode "insecure" }}{{ fail "production: true refuses tls.mode=insecure; use generated, certManager or secret" }}{{ end -}}
{{- end -}}
{{- if and (not $values.health.port) (ne $values.tls.mode "insecure") }}{{ fail "health.port is 0, but the kubelet's probes cannot speak TLS; set a port, or tls.mode=insecure" }}{{ end -}}
{{- if and (eq $values.tls.mode "secret") (not $values.tls.secretName) }}{{ fail "tls.mode is secret: set tls.secretName to a Secret with ca.crt, tls.crt and tls.key" }}{{ end -}}
{{- if and (eq $values.tls.mode "certManager") (not $values.tls.issuer.name) }}{{ fail "tls.mode is certManager: set tls.issuer.name" }}{{ end -}}
{{- with $values.database }}{{ if and (eq .mode "external") (not (and .external.host .external.secretName)) }}{{ fail "database.mode is external: set database.external.host and database.external.secretName" }}{{ end }}{{ end -}}
{{- with $values.objectStore }}{{ if and (eq .mode "external") (not (and .external.endpoint .external.secretName)) }}{{ fail "objectStore.mode is external: set objectStore.external.endpoint and objectStore.external.secretName" }}{{ end }}{{ end -}}
{{- range list "understanding" "memory" "tts" "video" "orchestrator" }}{{ if not (hasKey $values.components .) }}{{ fail (printf "components.%s is missing; a turn needs it" .) }}{{ end }}{{ end -}}
{{- $names := list -}}
{{- range $values.panel.voters -}}
{{- $names = append $names .name -}}
{{- if and .component (not (hasKey $values.components .component)) }}{{ fail (printf "panel.voters: %s asks component %s, which is not in components" .name .component) }}{{ end -}}
{{- end -}}
{{- if not (has $values.panel.writer $names) }}{{ fail (printf "panel.writer is %s; it must be one of panel.voters: %s" $values.panel.writer (join ", " $names)) }}{{ end -}}
{{- if not (has $values.panel.transcriber $names) }}{{ fail (printf "panel.transcriber is %s; it must be one of panel.voters: %s" $values.panel.transcriber (join ", " $names)) }}{{ end -}}
{{- end }}
