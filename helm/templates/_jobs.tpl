{{/* The Jobs, by name, as YAML. `hooks` are those of Helm. */}}
{{- define "e3rg.jobs" -}}
{{- if include "e3rg.ownWeights" . }}
weights:
  image: {{ include "e3rg.image" (list . "weights") }}
  command:
    - sh
    - -euc
    - |
      python3 -m models --to /models {{- if .Values.weights.mirrorClaim }} --mirror /mirror{{ end }}
      {{- range .Values.weights.models }} --with {{ . }}{{ end }}
      {{- range .Values.weights.acceptLicences }} --accept-licence {{ . }}{{ end }}
      touch /models/.complete-{{ include "e3rg.weightsMark" . }}
  env: {{ toJson .Values.weights.env }}
  memory: 1Gi
  seconds: 3600
  mountsWeights: true
  mounts:
    - {name: models, mountPath: /models}
    {{- if .Values.weights.mirrorClaim }}
    - {name: mirror, mountPath: /mirror, readOnly: true}
    {{- end }}
  volumes:
    - {name: models, persistentVolumeClaim: {claimName: {{ include "e3rg.weightsClaim" . }}}}
    {{- with .Values.weights.mirrorClaim }}
    - {name: mirror, persistentVolumeClaim: {claimName: {{ . }}}}
    {{- end }}
{{- end }}
migrate:
  image: {{ include "e3rg.image" (list . "memory") }}
  # On an upgrade before the new replicas. On an installation no hook: one before it would precede the bundled database,
  # and `--wait` would hold one after it back until the memory is ready, which waits for the schema.
  {{- if .Release.IsUpgrade }}
  hooks: pre-upgrade
  {{- end }}
  command: [sh, -c, "until python -m services.memory migrate; do sleep 2; done"]
  env:
    {{- range $key, $value := include "e3rg.storage" (list . "migrate") | fromYaml }}
    E3RG_MEMORY_{{ $key }}: {{ $value | quote }}
    {{- end }}
  memory: 512Mi
  seconds: 900
{{- if eq .Values.objectStore.mode "bundled" }}
bucket:
  image: {{ include "e3rg.image" (list . "memory") }}
  command: [sh, -c, "until python /scripts/bucket.py; do sleep 2; done"]
  env:
    ENDPOINT: {{ include "e3rg.name" (list . "store") }}:{{ include "e3rg.port" (list . "store") }}
    BUCKET: {{ .Values.objectStore.bucket }}
  memory: 256Mi
  seconds: 900
  mounts:
    - {name: scripts, mountPath: /scripts, readOnly: true}
  volumes:
    - {name: scripts, configMap: {name: {{ include "e3rg.name" (list . "bucket") }}}}
{{- end }}
{{- end }}

{{/* Specification of a Job: (dict "root" $ "name" name "job" job). */}}
{{- define "e3rg.jobSpec" -}}
backoffLimit: 10
activeDeadlineSeconds: {{ int .job.seconds }}
template:
  metadata:
    labels:
      {{- include "e3rg.podLabels" (list .root .name) | nindent 6 }}
      {{- if .job.mountsWeights }}
      {{- include "e3rg.weightsLabel" .root | nindent 6 }}
      {{- end }}
  spec:
    {{- include "e3rg.pod" (dict "root" .root "account" "jobs") | nindent 4 }}
    {{- with and .job.mountsWeights (include "e3rg.weightsAffinity" .root) }}
    affinity:
      {{- . | nindent 6 }}
    {{- end }}
    restartPolicy: OnFailure
    containers:
      - name: {{ .name }}
        image: {{ .job.image }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        {{- include "e3rg.container" .root | nindent 8 }}
        command:
          {{- toYaml .job.command | nindent 10 }}
        env:
          {{- range $key, $value := .job.env }}
          - {name: {{ $key }}, value: {{ $value | quote }}}
          {{- end }}
        resources: {requests: {cpu: 50m, memory: 128Mi}, limits: {memory: {{ .job.memory }}}}
        volumeMounts:
          - {name: tmp, mountPath: /tmp}
          {{- with .job.mounts }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
          {{- include "e3rg.secretMounts" (list .root .name) | nindent 10 }}
    volumes:
      - name: tmp
        # Packages of weights pass through it.
        emptyDir: {sizeLimit: 1Gi}
      {{- with .job.volumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- include "e3rg.secretVolumes" (list .root .name) | nindent 6 }}
{{- end }}

{{/* The CronJobs of the bundled database, by name, as YAML. */}}
{{- define "e3rg.cronJobs" -}}
{{- $backup := .Values.database.bundled.backup -}}
{{- if and (eq .Values.database.mode "bundled") $backup.schedule }}
backup:
  schedule: {{ $backup.schedule | quote }}
  uses: [backup-password]
  env: {KEEP: {{ $backup.keep | quote }}}
restore:
  # Never by itself: `kubectl create job --from=cronjob/…-restore`.
  schedule: "0 0 1 1 *"
  suspend: true
  uses: [admin-password]
  env: {FILE: {{ $backup.restoreFile | quote }}}
{{- end }}
{{- end }}
