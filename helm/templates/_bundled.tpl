{{/* The bundled servers, by name, as YAML; `user` is who runs them. */}}
{{- define "e3rg.bundled" -}}
{{- if eq .Values.database.mode "bundled" }}
database:
  values: {{ toJson .Values.database.bundled }}
  user: 999
  uses: [admin-password, owner-password, password, backup-password]
  env:
    - {name: PGDATA, value: /data/postgres}
    - {name: POSTGRES_DB, value: {{ .Values.database.name }}}
    - {name: POSTGRES_PASSWORD_FILE, value: /secrets/admin-password}
    - {name: E3RG_OWNER, value: {{ .Values.database.owner }}}
    - {name: E3RG_USER, value: {{ .Values.database.user }}}
  # By TCP: while it makes the roles, it listens on its socket only.
  probe: {exec: {command: [pg_isready, -h, 127.0.0.1, -U, postgres]}}
  mounts:
    - {name: socket, mountPath: /var/run/postgresql}
    - {name: scripts, mountPath: /docker-entrypoint-initdb.d/roles.sh, subPath: roles.sh, readOnly: true}
  volumes:
    - {name: socket, emptyDir: {sizeLimit: 1Mi}}
    - {name: scripts, configMap: {name: {{ include "e3rg.name" (list . "database") }}}}
{{- end }}
{{- if eq .Values.objectStore.mode "bundled" }}
store:
  values: {{ toJson .Values.objectStore.bundled }}
  user: 10001
  {{- if eq .Values.objectStore.bundled.kind "minio" }}
  uses: []
  args: [server, /data, --address=:9000, --certs-dir=/tmp/certificates]
  env:
    {{- range $variable, $key := dict "MINIO_ROOT_USER" "admin-access-key" "MINIO_ROOT_PASSWORD" "admin-secret-key" }}
    - name: {{ $variable }}
      valueFrom: {secretKeyRef: {name: {{ include "e3rg.name" (list $ "store") }}, key: {{ $key }}}}
    {{- end }}
  probe: {httpGet: {path: /minio/health/live, port: store}}
  {{- else }}
  uses: [s3.json]
  command: [weed]
  args:
    - -logtostderr=true
    - mini
    - -dir=/data
    - -ip=127.0.0.1
    - -ip.bind=0.0.0.0
    - -s3.port=8333
    - -s3.config=/secrets/s3.json
    - -s3.port.iceberg=0
    - -s3.port.lance=0
    - -s3.autoCreateBucket=false
    - -s3.allowDeleteBucketNotEmpty=false
    - -webdav=false
    - -admin.ui=false
    - -master.telemetry=false
  probe: {httpGet: {path: /healthz, port: store}}
  {{- end }}
{{- end }}
{{- end }}
