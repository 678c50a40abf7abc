{{/* Whom each service calls, as YAML; the NetworkPolicies are made of it, in both directions. */}}
{{- define "e3rg.calls" -}}
orchestrator: [understanding, memory, tts, video, orchestrator]
understanding: [mllm]
memory: [database, store]
migrate: [database]
backup: [database]
restore: [database]
bucket: [store]
weights: []
turn: [orchestrator]
{{- end }}

{{/* Port that a service listens on: (list $ service). */}}
{{- define "e3rg.port" -}}
{{- $values := (index . 0).Values -}}
{{- $service := index . 1 -}}
{{- if eq $service "database" -}}
{{- ternary $values.database.external.port 5432 (eq $values.database.mode "external") | int -}}
{{- else if eq $service "store" -}}
{{- if eq $values.objectStore.mode "external" -}}{{ int $values.objectStore.external.port }}
{{- else -}}{{ ternary 9000 8333 (eq $values.objectStore.bundled.kind "minio") }}{{ end -}}
{{- else -}}50051{{- end -}}
{{- end }}

{{/* Address of a component, all its replicas: (list $ component). */}}
{{- define "e3rg.address" -}}
{{- printf "dns:///%s:50051" (include "e3rg.name" .) -}}
{{- end }}

{{/* The panel's voters as JSON, in order of priority. A map of Helm would sort them by name. */}}
{{- define "e3rg.voters" -}}
{{- $root := . -}}
{{- $seats := list -}}
{{- range .Values.panel.voters -}}
{{- $address := .address | default "" -}}
{{- if .component }}{{ $address = include "e3rg.address" (list $root .component) }}{{ end -}}
{{- $seats = append $seats (printf "%s: %s" (toJson .name) (toJson $address)) -}}
{{- end -}}
{{- printf "{%s}" (join ", " $seats) -}}
{{- end }}

{{/* Settings that say where database and object store are, without E3RG_MEMORY_, as YAML: (list $ role), where the role
     is "memory" or "migrate". */}}
{{- define "e3rg.storage" -}}
{{- $root := index . 0 -}}
{{- $migrates := eq (index . 1) "migrate" -}}
{{- $db := $root.Values.database -}}
{{- $store := $root.Values.objectStore -}}
{{- $external := $db.external -}}
{{- $at := printf "%s:5432/%s?sslmode=disable" (include "e3rg.name" (list $root "database")) $db.name -}}
{{- if eq $db.mode "external" }}{{ $at = printf "%s:%d/%s?sslmode=%s" $external.host (int $external.port) $db.name $external.sslMode }}{{ end -}}
DATABASE_URL: postgresql://{{ $db.user }}@{{ $at }}
DATABASE_PASSWORD_FILE: /secrets/database/{{ ternary "owner-password" "password" $migrates }}
{{- if and (eq $db.mode "external") $external.caSecretName }}
DATABASE_CA_FILE: /secrets/database-ca/ca.crt
{{- end }}
{{- if $migrates }}
MIGRATION_URL: postgresql://{{ $db.owner }}@{{ $at }}
{{- else }}
DATABASE_CONNECTIONS: {{ $db.connections | quote }}
S3_BUCKET: {{ $store.bucket }}
S3_REGION: {{ $store.region }}
{{- if eq $store.mode "external" }}
S3_ENDPOINT: {{ $store.external.endpoint }}
S3_TLS: {{ $store.external.tls | quote }}
{{- if $store.external.caSecretName }}
S3_CA_FILE: /secrets/store-ca/ca.crt
{{- end }}
{{- else }}
S3_ENDPOINT: {{ include "e3rg.name" (list $root "store") }}:{{ include "e3rg.port" (list $root "store") }}
S3_TLS: "false"
{{- end }}
S3_ACCESS_KEY_FILE: /secrets/store/access-key
S3_SECRET_KEY_FILE: /secrets/store/secret-key
{{- end }}
{{- end }}

{{/* Secrets that a role mounts below /secrets, as YAML, by folder: (list $ role). Items limit it to what it needs. */}}
{{- define "e3rg.secrets" -}}
{{- $root := index . 0 -}}
{{- $role := index . 1 -}}
{{- $db := $root.Values.database -}}
{{- $store := $root.Values.objectStore -}}
{{- if has $role (list "memory" "migrate") }}
database:
  name: {{ ternary $db.external.secretName (include "e3rg.name" (list $root "database")) (eq $db.mode "external") }}
  keys: [{{ ternary "owner-password" "password" (eq $role "migrate") }}]
{{- if and (eq $db.mode "external") $db.external.caSecretName }}
database-ca: {name: {{ $db.external.caSecretName }}, keys: [ca.crt]}
{{- end }}
{{- end }}
{{- if eq $role "memory" }}
store:
  name: {{ ternary $store.external.secretName (include "e3rg.name" (list $root "store")) (eq $store.mode "external") }}
  keys: [access-key, secret-key]
{{- if and (eq $store.mode "external") $store.external.caSecretName }}
store-ca: {name: {{ $store.external.caSecretName }}, keys: [ca.crt]}
{{- end }}
{{- end }}
{{- if eq $role "bucket" }}
store: {name: {{ include "e3rg.name" (list $root "store") }}, keys: [admin-access-key, admin-secret-key]}
{{- end }}
{{- end }}
