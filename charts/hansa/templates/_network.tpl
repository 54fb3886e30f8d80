{{/* Namespaces whose Jobs get a NetworkPolicy, as JSON: those that the chart knows of. */}}
{{- define "hansa.jobs.namespaces" -}}
{{- $own := list .Release.Namespace -}}
{{- if include "hansa.store" . -}}
{{- range include "hansa.store.users" . | fromJsonArray -}}
{{- $own = append $own .namespace -}}
{{- end -}}
{{- end -}}
{{- coalesce .Values.networkPolicy.jobs.namespaces .Values.watch.namespaces ($own | uniq | sortAlpha) | toJson -}}
{{- end -}}

{{/*
Addresses of the API server as CIDRs, as JSON: those that are given, or those of the Service kubernetes and
behind it. Empty where Helm cannot ask the cluster, as in `helm template`. Plugins match addresses before or
behind the Service, so both are listed.
*/}}
{{- define "hansa.apiServer.cidrs" -}}
{{- $cidrs := .Values.networkPolicy.apiServer.cidrs -}}
{{- if not $cidrs -}}
{{- $addresses := dig "spec" "clusterIPs" (list) (lookup "v1" "Service" "default" "kubernetes") -}}
{{- $slice := lookup "discovery.k8s.io/v1" "EndpointSlice" "default" "kubernetes" -}}
{{- range (dig "endpoints" (list) $slice) -}}
{{- $addresses = concat $addresses .addresses -}}
{{- end -}}
{{- range ($addresses | uniq | sortAlpha) -}}
{{- $cidrs = append $cidrs (printf "%s/%s" . (ternary "128" "32" (contains ":" .))) -}}
{{- end -}}
{{- end -}}
{{- $cidrs | toJson -}}
{{- end -}}

{{/* Ports of the API server, as JSON: those that are given, and those that the cluster shows behind the Service. */}}
{{- define "hansa.apiServer.ports" -}}
{{- $ports := .Values.networkPolicy.apiServer.ports -}}
{{- range (dig "ports" (list) (lookup "discovery.k8s.io/v1" "EndpointSlice" "default" "kubernetes")) -}}
{{- $ports = append $ports (.port | int) -}}
{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}

{{/* Everything of one family of addresses but those of a list: (list "0.0.0.0/0" $cidrs) */}}
{{- define "hansa.anywhereBut" -}}
{{- $all := index . 0 -}}
{{- $not := list -}}
{{- range (index . 1) -}}
{{- if eq (contains ":" $all) (contains ":" .) -}}{{- $not = append $not . -}}{{- end -}}
{{- end -}}
ipBlock:
  cidr: {{ $all | quote }}
  {{- with $not | uniq }}
  except:
    {{- range . }}
    - {{ . | quote }}
    {{- end }}
  {{- end }}
{{- end -}}
