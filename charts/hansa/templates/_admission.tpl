{{/* Names with * for any text as one regular expression, in the middle of CEL's quotes; of an empty list: one that nothing fits. */}}
{{- define "hansa.regex" -}}
{{- $each := list -}}
{{- range . -}}
{{- $each = append $each (. | replace "." "[.]" | replace "*" ".*") -}}
{{- end -}}
^({{ $each | uniq | join "|" }})$
{{- end -}}

{{/* What the operator's own Pod templates name, which no allow-list binds, as JSON: (list $ "serviceAccountName" | "driver") */}}
{{- define "hansa.templates.find" -}}
{{- $key := index . 1 -}}
{{- $found := list -}}
{{- range (list (index . 0).Values.settings.clientPodTemplate (index . 0).Values.settings.serverPodTemplate) -}}
{{- $spec := dig "spec" (dict) . -}}
{{- if eq $key "driver" -}}
{{- range (dig "volumes" (list) $spec) -}}
{{- with dig "csi" "driver" "" . -}}{{- $found = append $found . -}}{{- end -}}
{{- end -}}
{{- else -}}
{{- with dig $key "" $spec -}}{{- $found = append $found . -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}
