{{/* Every component, and each of its variants, by the name of its objects, as YAML: the values of the component with those of
     the variant over them; `component` and `variant` say which it is, `at` where it stands in the values. The name is the
     label by which pods are selected, so the selectors of a component are the same with variants and without. */}}
{{- define "e3rg.workloads" -}}
{{- $root := . -}}
{{- $workloads := dict -}}
{{- range $component, $own := .Values.components -}}
{{- $base := mergeOverwrite (deepCopy $root.Values.componentDefaults) (deepCopy (omit $own "variants")) -}}
{{- $_ := set $base "image" ($base.image | default $component) -}}
{{- $_ := set $workloads $component (mergeOverwrite (deepCopy $base) (dict "component" $component "variant" "default" "at" (printf "components.%s" $component))) -}}
{{- range $variant, $changed := $own.variants -}}
{{- if kindIs "map" $changed -}}
{{- $at := printf "components.%s.variants.%s" $component $variant -}}
{{- $_ := set $workloads (printf "%s-%s" $component $variant) (mergeOverwrite (deepCopy $base) (deepCopy $changed) (dict "component" $component "variant" $variant "at" $at)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $workloads -}}
{{- end }}

{{/* Says so for a component that serves a model; these have variants. */}}
{{- define "e3rg.isModel" -}}
{{- if has (include "e3rg.service" .) (list "mllm" "tts" "video") }}true{{ end -}}
{{- end }}

{{/* Says so for a component that reads the table of variants. */}}
{{- define "e3rg.watchesVariants" -}}
{{- if has . (list "orchestrator" "understanding") }}true{{ end -}}
{{- end }}

{{/* Labels that tell the variants of a component apart; nothing selects by them. */}}
{{- define "e3rg.variantLabels" -}}
e3rg/component: {{ .component }}
e3rg/variant: {{ .variant }}
{{- end }}

{{/* Addresses of a component's variants by their names, as YAML; that of the component itself is empty, for gateway and panel
     know it: (list $ component). */}}
{{- define "e3rg.variants" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
{{- range $name, $workload := include "e3rg.workloads" $root | fromYaml -}}
{{- if eq $workload.component $component }}
{{ $workload.variant }}: {{ eq $name $component | ternary "" (include "e3rg.address" (list $root $name)) | quote }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Component of each stage that may have variants, as YAML; a voter that is served elsewhere has none. */}}
{{- define "e3rg.stages" -}}
tts: tts
video: video
{{- range .Values.panel.voters }}
{{- if .component }}
mllm-{{ .name }}: {{ .component }}
{{- if eq .name $.Values.panel.writer }}
writer: {{ .component }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The table of variants that the values make, as JSON. Its version is that of its content. */}}
{{- define "e3rg.table" -}}
{{- include "e3rg.checkVariants" . -}}
{{- $root := . -}}
{{- $components := include "e3rg.stages" . | fromYaml -}}
{{- $stages := dict -}}
{{- range $stage, $wanted := .Values.variants.stages -}}
{{- $variants := dict -}}
{{- range $name, $address := include "e3rg.variants" (list $root (index $components $stage)) | fromYaml -}}
{{- $_ := set $variants $name (dict "address" $address) -}}
{{- end -}}
{{- $control := $wanted.control | default "default" -}}
{{- range $name, $weight := $wanted.weights | default (dict $control 100) }}{{ $_ := set (index $variants $name) "weight" (float64 $weight) }}{{ end -}}
{{- range $name, $share := $wanted.shadow }}{{ $_ := set (index $variants $name) "shadow" (float64 $share) }}{{ end -}}
{{- range $name, $state := $wanted.states }}{{ $_ := set (index $variants $name) "state" $state }}{{ end -}}
{{- $_ := set $stages $stage (dict "control" $control "variants" $variants) -}}
{{- end -}}
{{- $guardrails := dict -}}
{{- range $stage, $limits := .Values.variants.guardrails -}}
{{- $made := dict -}}
{{- range $limit, $value := $limits }}{{ $_ := set $made (snakecase $limit) (ternary (int $value) (float64 $value) (eq $limit "turnsMin")) }}{{ end -}}
{{- $_ := set $guardrails $stage $made -}}
{{- end -}}
{{- $table := dict "owner" "helm" "stages" $stages "guardrails" $guardrails -}}
{{- with .Values.variants.experiment }}{{ $_ := set $table "experiment" . }}{{ end -}}
{{- $table | toPrettyJson -}}
{{- end }}

{{/* Fails where variants contradict each other. */}}
{{- define "e3rg.checkVariants" -}}
{{- $root := . -}}
{{- $names := keys .Values.components -}}
{{- range $component, $own := .Values.components -}}
{{- range $variant, $changed := $own.variants -}}
{{- if kindIs "map" $changed -}}
{{- $at := printf "components.%s.variants.%s" $component $variant -}}
{{- if not (include "e3rg.isModel" $component) }}{{ fail (printf "%s: only mllm-*, tts and video have variants" $at) }}{{ end -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$" $variant) }}{{ fail (printf "%s: a name begins with a letter and has 1 to 40 of a-z, 0-9 and -; take another name" $at) }}{{ end -}}
{{- if eq $variant "default" }}{{ fail (printf "%s: default is the component itself; take another name" $at) }}{{ end -}}
{{- $name := printf "%s-%s" $component $variant -}}
{{- if has $name $names }}{{ fail (printf "%s makes the name %s, which another component or variant has; take another name" $at $name) }}{{ end -}}
{{- $names = append $names $name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.variants.owner "cli") (or .Values.variants.stages .Values.variants.guardrails .Values.variants.experiment) }}{{ fail "variants.stages, variants.guardrails or variants.experiment is set, but variants.owner is cli, and the command e3rg variants decides; set variants.owner=helm, or leave them out" }}{{ end -}}
{{- $components := include "e3rg.stages" . | fromYaml -}}
{{- range $stage, $wanted := .Values.variants.stages -}}
{{- $at := printf "variants.stages.%s" $stage -}}
{{- if not (hasKey $components $stage) }}{{ fail (printf "%s: there is no such stage; there are %s" $at (keys $components | sortAlpha | join ", ")) }}{{ end -}}
{{- include "e3rg.checkStage" (list $root $at (index $components $stage) $wanted) -}}
{{- end -}}
{{- range $stage, $_ := .Values.variants.guardrails -}}
{{- if not (hasKey $root.Values.variants.stages $stage) }}{{ fail (printf "variants.guardrails.%s: variants.stages has no %s; add it" $stage $stage) }}{{ end -}}
{{- end -}}
{{- end }}

{{/* Fails where the values of a stage contradict each other: (list $ "variants.stages.tts" component values). */}}
{{- define "e3rg.checkStage" -}}
{{- $at := index . 1 -}}
{{- $component := index . 2 -}}
{{- $wanted := index . 3 -}}
{{- $known := include "e3rg.variants" (list (index . 0) $component) | fromYaml | keys | sortAlpha -}}
{{- $control := $wanted.control | default "default" -}}
{{- $weights := $wanted.weights | default (dict $control 100) -}}
{{- $named := dict "control" (list $control) "weights" (keys $weights) "shadow" (keys ($wanted.shadow | default dict)) "states" (keys ($wanted.states | default dict)) -}}
{{- range $field, $names := $named -}}
{{- range $names -}}
{{- if not (has . $known) }}{{ fail (printf "%s.%s: %s has no variant %s; use one of %s, or add components.%s.variants.%s" $at $field $component . (join ", " $known) $component .) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $sum := 0.0 -}}
{{- range $name, $weight := $weights -}}
{{- $sum = addf $sum (float64 $weight) -}}
{{- $state := index ($wanted.states | default dict) $name | default "serving" -}}
{{- if and (gt (float64 $weight) 0.0) (ne $state "serving") }}{{ fail (printf "%s.weights.%s is %v, but %s.states.%s is %s; make the weight 0" $at $name $weight $at $name $state) }}{{ end -}}
{{- end -}}
{{- if ne (round $sum 6) 100.0 }}{{ fail (printf "%s.weights sum to %v; make them 100" $at $sum) }}{{ end -}}
{{- end }}
