{{/* Signals that a component is scaled by, as YAML: the metric, what it is for each pod, and its query:
     (list $ name scaling). */}}
{{- define "e3rg.signals" -}}
{{- $root := index . 0 -}}
{{- $scaling := index . 2 -}}
{{- $series := printf "namespace=%q,service=%q" $root.Release.Namespace (include "e3rg.name" .) -}}
{{- range ($root.Files.Get "files/prometheus-adapter.yaml" | fromYaml).rules.external }}
{{ .name.as }}:
  target: {{ index (dict "e3rg_backlog_seconds" $scaling.targetBacklogS "e3rg_refusals_per_second" $scaling.targetRefusalsPerS) .name.as | quote }}
  query: {{ .metricsQuery | replace "<<.LabelMatchers>>" $series | squote }}
{{- end }}
{{- end }}

{{/* Pace of scaling, whose values are given. Up at once, for a pod that loads a model helps late; down slowly, for the same reason. */}}
{{- define "e3rg.behavior" -}}
scaleUp:
  stabilizationWindowSeconds: 0
  selectPolicy: Max
  policies:
    - {type: Percent, value: 100, periodSeconds: 15}
    - {type: Pods, value: 4, periodSeconds: 15}
scaleDown:
  stabilizationWindowSeconds: {{ int .scaleDownAfterS }}
  selectPolicy: Max
  policies:
    - {type: Percent, value: 10, periodSeconds: 60}
    - {type: Pods, value: 1, periodSeconds: 60}
{{- end }}

{{/* Fails where scaling lacks what it needs. */}}
{{- define "e3rg.checkScaling" -}}
{{- $root := . -}}
{{- range $name, $workload := include "e3rg.workloads" . | fromYaml -}}
{{- $scaling := $workload.scaling -}}
{{- $at := printf "%s.scaling" $workload.at -}}
{{- if ne $scaling.kind "none" -}}
{{- if not (include "e3rg.isModel" $name) }}{{ fail (printf "%s.kind is %s, but only mllm-*, tts and video tell a backlog; set %s.replicas" $at $scaling.kind $workload.at) }}{{ end -}}
{{- if gt (int $scaling.minReplicas) (int $scaling.maxReplicas) }}{{ fail (printf "%s.minReplicas is %d, more than maxReplicas, %d; raise maxReplicas" $at (int $scaling.minReplicas) (int $scaling.maxReplicas)) }}{{ end -}}
{{- end -}}
{{- if eq $scaling.kind "keda" -}}
{{- if not $root.Values.metrics.prometheusAddress }}{{ fail (printf "%s.kind is keda: set metrics.prometheusAddress to the Prometheus that it asks" $at) }}{{ end -}}
{{- include "e3rg.demand" (list $root "keda.sh/v1alpha1/ScaledObject" (printf "%s.kind=keda" $at) "KEDA") -}}
{{- end -}}
{{- end -}}
{{- end }}
