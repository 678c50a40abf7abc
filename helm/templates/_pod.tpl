{{/* What every pod has, so that it passes the standard `restricted`: (dict "root" $ "account" name "user" 10001 "token" true),
     where only pods that ask the cluster's API have a token. */}}
{{- define "e3rg.pod" -}}
serviceAccountName: {{ include "e3rg.name" (list .root .account) }}
automountServiceAccountToken: {{ .token | default false }}
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .user | default 10001 }}
  runAsGroup: {{ .user | default 10001 }}
  fsGroup: {{ .user | default 10001 }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* The same for every container. */}}
{{- define "e3rg.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Keeps a component's pods apart, where there is room: (list $ component). Zones are a preference of their own: as a second
     spread constraint they would switch off the first where nodes have no zone. */}}
{{- define "e3rg.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "e3rg.selector" . | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: topology.kubernetes.io/zone
          labelSelector:
            matchLabels:
              {{- include "e3rg.selector" . | nindent 14 }}
{{- end }}

{{/* Priority class of a pod: (list $ "core"). */}}
{{- define "e3rg.priority" -}}
{{- if (index . 0).Values.priority.create }}
priorityClassName: {{ include "e3rg.priorityClass" . }}
{{- end }}
{{- end }}

{{/* Volumes of Secrets for a role, and where they are mounted: (list $ role). */}}
{{- define "e3rg.secretVolumes" -}}
{{- range $folder, $secret := include "e3rg.secrets" . | fromYaml }}
- name: {{ $folder }}
  secret:
    secretName: {{ $secret.name }}
    defaultMode: 0440
    items:
      {{- range $secret.keys }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
{{- end }}
{{- end }}
{{- define "e3rg.secretMounts" -}}
{{- range $folder, $_ := include "e3rg.secrets" . | fromYaml }}
- {name: {{ $folder }}, mountPath: /secrets/{{ $folder }}, readOnly: true}
{{- end }}
{{- end }}

{{/* Label of the pods that mount the weights' claim. */}}
{{- define "e3rg.weightsLabel" -}}
e3rg/weights: {{ .Release.Name }}
{{- end }}

{{/* Keeps these pods on one node, unless the claim says that several may mount it: the scheduler does not look where a
     disk is attached already. The first pod matches itself. Of a claim of the operator's nothing is known. */}}
{{- define "e3rg.weightsAffinity" -}}
{{- if and (include "e3rg.ownWeights" .) (not (has "ReadWriteMany" .Values.weights.accessModes)) }}
podAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "e3rg.weightsLabel" . | nindent 10 }}
{{- end }}
{{- end }}

{{/* Says so where a Job fills a claim of the chart's with the weights. */}}
{{- define "e3rg.ownWeights" -}}
{{- if not (or .Values.weights.existingClaim .Values.weights.ociImage) }}true{{ end -}}
{{- end }}

{{/* Claim that holds the weights. */}}
{{- define "e3rg.weightsClaim" -}}
{{- .Values.weights.existingClaim | default (include "e3rg.name" (list . "weights")) -}}
{{- end }}

{{/* File that the weights' Job writes last; it names what the Job was asked for. */}}
{{- define "e3rg.weightsMark" -}}
{{- $weights := .Values.weights -}}
{{- $asked := list (include "e3rg.image" (list . "weights")) $weights.models $weights.mirrorClaim $weights.env -}}
{{- toJson $asked | sha256sum | trunc 10 -}}
{{- end }}
