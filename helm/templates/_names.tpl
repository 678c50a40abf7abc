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

{{/* Name of a priority class, which the whole cluster shares: (list $ "core"). A class cannot be changed, so that another
     value makes another class. */}}
{{- define "e3rg.priorityClass" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s-%s-%d" $root.Release.Namespace $root.Release.Name (index . 1) (int (index $root.Values.priority (index . 1))) -}}
{{- end }}

{{/* Names of all ServiceAccounts, as a YAML list: one for each kind of pod. */}}
{{- define "e3rg.accounts" -}}
{{- $names := include "e3rg.workloads" . | fromYaml | keys | sortAlpha -}}
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
{{- if has (int $values.health.port) (list 50051 9090) }}{{ fail (printf "health.port is %d, which gRPC and the metrics have (50051, 9090); set another port, for instance 50052" (int $values.health.port)) }}{{ end -}}
{{- with $values.turn }}{{ if gt (int .deadlineS) (int .deadlineMaxS) }}{{ fail (printf "turn.deadlineS is %d, more than turn.deadlineMaxS, %d; raise turn.deadlineMaxS" (int .deadlineS) (int .deadlineMaxS)) }}{{ end }}{{ end -}}
{{- if and $values.risk.webhook.url (not $values.risk.webhook.secretName) }}{{ fail "risk.webhook.url is set: set risk.webhook.secretName too, the Secret whose key `secret` signs what is sent" }}{{ end -}}
{{- if and $values.risk.webhook.url $values.networkPolicy.enabled (not $values.risk.webhook.cidrs) }}{{ fail "risk.webhook.url is set: set risk.webhook.cidrs too, where it is, or the gateway may not reach it" }}{{ end -}}
{{- if and $values.risk.helpCountry (not (hasKey $values.risk.helpLines $values.risk.helpCountry)) }}{{ fail (printf "risk.helpCountry is %s, which risk.helpLines does not have" $values.risk.helpCountry) }}{{ end -}}
{{- if and $values.telemetry.otlpEndpoint $values.networkPolicy.enabled (not $values.telemetry.otlpNamespace) }}{{ fail "telemetry.otlpEndpoint is set: set telemetry.otlpNamespace too, the collector's, or no pod may reach it" }}{{ end -}}
{{- with $values.gateway.ingress }}{{ if and .enabled (not .host) }}{{ fail "gateway.ingress.enabled: set gateway.ingress.host to the name that clients use" }}{{ end }}{{ end -}}
{{- with $values.gateway.route }}{{ if and .enabled (not .parentRefs) }}{{ fail "gateway.route.enabled: set gateway.route.parentRefs to the Gateways that it is attached to" }}{{ end }}{{ end -}}
{{- include "e3rg.checkEndpoint" $values.objectStore -}}
{{- with $values.metrics -}}
{{- if .serviceMonitor.enabled }}{{ include "e3rg.demand" (list $ "monitoring.coreos.com/v1/ServiceMonitor" "metrics.serviceMonitor.enabled" "the Prometheus Operator") }}{{ end -}}
{{- if .rules.enabled }}{{ include "e3rg.demand" (list $ "monitoring.coreos.com/v1/PrometheusRule" "metrics.rules.enabled" "the Prometheus Operator") }}{{ end -}}
{{- end -}}
{{- include "e3rg.checkVariants" . -}}
{{- include "e3rg.checkNames" . -}}
{{- include "e3rg.checkScaling" . -}}
{{- range list "understanding" "memory" "tts" "video" "orchestrator" }}{{ if not (hasKey $values.components .) }}{{ fail (printf "components.%s is missing; a turn needs it" .) }}{{ end }}{{ end -}}
{{- $names := list -}}
{{- range $values.panel.voters -}}
{{- if has .name $names }}{{ fail (printf "panel.voters has two of the name %s; give each a name of its own" .name) }}{{ end -}}
{{- $names = append $names .name -}}
{{- if and .component (not (hasPrefix "mllm-" .component)) }}{{ fail (printf "panel.voters: %s asks component %s, which is no voter; name one that begins with mllm-" .name .component) }}{{ end -}}
{{- if and .component (not (hasKey $values.components .component)) }}{{ fail (printf "panel.voters: %s asks component %s, which is not in components" .name .component) }}{{ end -}}
{{- end -}}
{{- if not (has $values.panel.writer $names) }}{{ fail (printf "panel.writer is %s; it must be one of panel.voters: %s" $values.panel.writer (join ", " $names)) }}{{ end -}}
{{- if not (has $values.panel.transcriber $names) }}{{ fail (printf "panel.transcriber is %s; it must be one of panel.voters: %s" $values.panel.transcriber (join ", " $names)) }}{{ end -}}
{{- end }}

{{/* Fails where a cluster does not know a kind: (list $ "group/version/Kind" value "who brings it"). Only a cluster names
     the group of its aggregation layer. Without one, as in `helm template` and `helm lint`, nothing is known. */}}
{{- define "e3rg.demand" -}}
{{- $known := (index . 0).Capabilities.APIVersions -}}
{{- if and ($known.Has "apiregistration.k8s.io/v1") (not ($known.Has (index . 1))) -}}
{{- fail (printf "%s: this cluster does not know %s; install %s first, or leave it off" (index . 2) (index . 1) (index . 3)) -}}
{{- end -}}
{{- end }}

{{/* Fails where the endpoint of the object store and its port, which the NetworkPolicies open, contradict each other. */}}
{{- define "e3rg.checkEndpoint" -}}
{{- $external := .external -}}
{{- if and (eq .mode "external") $external.endpoint -}}
{{- if contains "://" $external.endpoint }}{{ fail (printf "objectStore.external.endpoint is %s; leave out %s:// and set objectStore.external.tls" $external.endpoint (splitList "://" $external.endpoint | first)) }}{{ end -}}
{{- $port := regexFind ":[0-9]+$" $external.endpoint | trimPrefix ":" | default (ternary "443" "80" $external.tls) -}}
{{- if ne $port (toString (int $external.port)) }}{{ fail (printf "objectStore.external.port is %d, but objectStore.external.endpoint, %s, is asked at port %s; set objectStore.external.port=%s" (int $external.port) $external.endpoint $port $port) }}{{ end -}}
{{- end -}}
{{- end }}

{{/* Fails where the release makes a name that Kubernetes refuses, or two volumes of one name. */}}
{{- define "e3rg.checkNames" -}}
{{- $root := . -}}
{{- $longest := dict -}}
{{- $workloads := include "e3rg.workloads" . | fromYaml -}}
{{- range keys $workloads }}{{ $_ := set $longest . 63 }}{{ end -}}
{{- /* A Job's name ends with a hash; to that of a StatefulSet or a CronJob, Kubernetes adds 11 characters. */ -}}
{{- range include "e3rg.jobs" . | fromYaml | keys }}{{ $_ := set $longest . 52 }}{{ end -}}
{{- range include "e3rg.cronJobs" . | fromYaml | keys }}{{ $_ := set $longest . 52 }}{{ end -}}
{{- range include "e3rg.bundled" . | fromYaml | keys }}{{ $_ := set $longest . 52 }}{{ end -}}
{{- range $name, $length := $longest -}}
{{- $made := include "e3rg.name" (list $root $name) -}}
{{- if gt (len $made) $length }}{{ fail (printf "the name %s has %d characters, at most %d are possible; take a shorter name for the release, the component or the variant" $made (len $made) $length) }}{{ end -}}
{{- end -}}
{{- $taken := list "tmp" "models" "tls" "variants" "database" "database-ca" "store" "store-ca" -}}
{{- range $name, $workload := $workloads -}}
{{- range $workload.volumes -}}
{{- if has .name $taken }}{{ fail (printf "%s.volumes: the name %s is the chart's own; take one that is none of %s" $workload.at .name (join ", " $taken)) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}
