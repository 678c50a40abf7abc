{{/* Settings that the chart makes for a component, by their name without prefix, as YAML: (list $ name variant). */}}
{{- define "e3rg.settings" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $values := $root.Values -}}
{{- $service := include "e3rg.service" $name -}}
HOST: 0.0.0.0
PORT: "50051"
METRICS_PORT: "9090"
MODELS_DIR: /models
SHUTDOWN_GRACE_S: {{ add $values.turn.deadlineMaxS 10 | quote }}
{{- if $values.health.port }}
HEALTH_PORT: {{ $values.health.port | quote }}
{{- end }}
{{- if eq $values.tls.mode "insecure" }}
INSECURE: "true"
{{- else }}
TLS_CERTIFICATE_FILE: /tls/tls.crt
TLS_KEY_FILE: /tls/tls.key
TLS_CA_FILE: /tls/ca.crt
{{- if or (ne $service "orchestrator") $values.gateway.clientCertificates }}
TLS_CLIENT_CA_FILE: /tls/ca.crt
{{- end }}
{{- end }}
{{- if include "e3rg.isModel" $name }}
VARIANT: {{ index . 2 }}
{{- end }}
{{- if include "e3rg.watchesVariants" $name }}
VARIANTS_FILE: /variants/variants.json
VARIANTS_CONFIGMAP: {{ $root.Release.Namespace }}/{{ include "e3rg.name" (list $root "variants") }}
{{- end }}
{{- if eq $service "understanding" }}
VOTERS: {{ include "e3rg.voters" $root | quote }}
WRITER: {{ $values.panel.writer }}
TRANSCRIBER: {{ $values.panel.transcriber }}
{{- with $values.risk.helpLines }}
HELP_LINES: {{ toJson . | quote }}
HELP_COUNTRY: {{ $values.risk.helpCountry }}
{{- end }}
{{- else if eq $service "orchestrator" }}
{{- range list "understanding" "memory" "tts" "video" }}
{{ upper . }}_ADDRESS: {{ include "e3rg.address" (list $root .) }}
{{- end }}
TURN_DEADLINE_S: {{ $values.turn.deadlineS | quote }}
TURN_DEADLINE_MAX_S: {{ $values.turn.deadlineMaxS | quote }}
VARIANT_ADMIN: {{ $values.variants.admin | quote }}
{{- with $values.risk.webhook.url }}
RISK_WEBHOOK_URL: {{ . }}
RISK_WEBHOOK_WORDS: {{ $values.risk.webhook.words | quote }}
{{- end }}
PEERS_ADDRESS: {{ include "e3rg.address" (list $root "orchestrator") }}
{{- else if eq $service "memory" }}
{{ include "e3rg.storage" (list $root "memory") }}
{{- end }}
{{- end }}

{{/* Environment of a component's container: (list $ name component). Its own settings win. */}}
{{- define "e3rg.environment" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $component := index . 2 -}}
{{- $prefix := printf "E3RG_%s_" (include "e3rg.service" $name | upper) -}}
{{- $environment := dict -}}
{{- range $key, $value := include "e3rg.settings" (list $root $name $component.variant) | fromYaml }}{{ $_ := set $environment (printf "%s%s" $prefix $key) $value }}{{ end -}}
{{- with $root.Values.telemetry.otlpEndpoint -}}
{{- $environment = merge $environment (dict "OTEL_EXPORTER_OTLP_ENDPOINT" . "OTEL_SERVICE_NAME" (printf "e3rg-%s" $name)
      "OTEL_TRACES_SAMPLER" "parentbased_traceidratio" "OTEL_TRACES_SAMPLER_ARG" ($root.Values.telemetry.sampledShare | toString)) -}}
{{- end -}}
{{- range $key, $value := mergeOverwrite $environment $component.env }}
- {name: {{ $key }}, value: {{ $value | quote }}}
{{- end }}
{{- if and (eq $name "orchestrator") $root.Values.risk.webhook.url }}
- name: E3RG_ORCHESTRATOR_RISK_WEBHOOK_SECRET
  valueFrom: {secretKeyRef: {name: {{ $root.Values.risk.webhook.secretName }}, key: secret}}
{{- end }}
{{- range $key, $from := $component.secretEnv }}
- name: {{ $key }}
  valueFrom: {secretKeyRef: {name: {{ $from.secret }}, key: {{ $from.key }}}}
{{- end }}
{{- end }}

{{/* Name of the Secret with a component's certificate: (list $ name). */}}
{{- define "e3rg.tlsSecret" -}}
{{- $root := index . 0 -}}
{{- if eq $root.Values.tls.mode "secret" }}{{ $root.Values.tls.secretName }}
{{- else }}{{ include "e3rg.name" . }}-tls{{ end -}}
{{- end }}

{{/* Names that a component's certificate is for, as a YAML list: (list $ name). */}}
{{- define "e3rg.tlsNames" -}}
{{- $host := include "e3rg.name" . -}}
{{- $namespace := (index . 0).Release.Namespace -}}
- {{ $host }}
- {{ $host }}.{{ $namespace }}
- {{ $host }}.{{ $namespace }}.svc
- {{ $host }}.{{ $namespace }}.svc.cluster.local
- localhost
{{- end }}
