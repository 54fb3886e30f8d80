{{- define "hansa.minio" -}}
{{- printf "%s-minio" (include "hansa.fullname" .) -}}
{{- end -}}

{{- define "hansa.minio.root" -}}
{{- .Values.minio.existingSecret | default (printf "%s-root" (include "hansa.minio" .)) -}}
{{- end -}}

{{- define "hansa.minio.url" -}}
{{- printf "http://%s.%s.svc:%d" (include "hansa.minio" .) .Release.Namespace (int .Values.minio.port) -}}
{{- end -}}

{{/*
Everyone who gets a user, as JSON: [{user, party, federation, namespace, bucket, prefix, model}].
The user's name is also that of its Secret and, after "hansa-", of its policy.
*/}}
{{- define "hansa.minio.users" -}}
{{- $users := list -}}
{{- $seen := dict -}}
{{- range $index, $federation := .Values.minio.federations -}}
{{- if has "aggregator" $federation.environments -}}
{{- fail (printf "minio.federations[%d].environments: got aggregator, expected names of environments (the aggregator gets a user of its own)" $index) -}}
{{- end -}}
{{- range $party := prepend $federation.environments "aggregator" -}}
{{- $user := printf "%s-%s" $federation.name $party -}}
{{- if hasKey $seen $user -}}
{{- fail (printf "minio.federations[%d]: got a second Secret %s, expected names that stay different when federation and environment are joined by -" $index $user) -}}
{{- end -}}
{{- $_ := set $seen $user true -}}
{{- $prefix := $federation.name -}}
{{- if hasKey $federation "prefix" -}}{{- $prefix = $federation.prefix -}}{{- end -}}
{{- $users = append $users (dict
  "user" $user
  "party" $party
  "federation" $federation.name
  "namespace" ($federation.namespace | default $.Release.Namespace)
  "bucket" ($federation.bucket | default "hansa")
  "prefix" $prefix
  "model" ($federation.modelSource | default ""))
-}}
{{- end -}}
{{- end -}}
{{- toJson $users -}}
{{- end -}}

{{/* The policy of one of them, as `hansa policy` prints it; `denied` lists actions it forbids. */}}
{{- define "hansa.minio.policy" -}}
{{- $under := ternary "" (printf "%s/" .prefix) (empty .prefix) -}}
{{- $read := list (print $under "federation.json") (print $under "global/*") (print $under "audit/*") -}}
{{- $write := list -}}
{{- $buckets := dict -}}
{{- if eq .party "aggregator" -}}
{{- $write = $read -}}
{{- $read = append $read (print $under "updates/*") -}}
{{- else -}}
{{- range list "updates" "evaluations" "experience" -}}
{{- $write = append $write (printf "%s%s/%s/*" $under . $.party) -}}
{{- end -}}
{{- $read = concat $read $write -}}
{{- if .model -}}
{{- $source := trimPrefix "s3://" .model | splitn "/" 2 -}}
{{- $path := printf "%s/*" (trimSuffix "/" $source._1) -}}
{{- if eq $source._0 .bucket -}}
{{- $read = append $read $path -}}
{{- else -}}
{{- $_ := set $buckets $source._0 (dict "read" (list $path) "write" list) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $buckets .bucket (dict "read" $read "write" $write) -}}
{{- $statements := list -}}
{{- range $bucket := keys $buckets | sortAlpha -}}
{{- $arn := printf "arn:aws:s3:::%s" $bucket -}}
{{- $rights := get $buckets $bucket -}}
{{- $read := sortAlpha $rights.read -}}
{{- $condition := dict "StringLike" (dict "s3:prefix" $read) -}}
{{- $statements = append $statements (dict "Effect" "Allow" "Action" (list "s3:ListBucket") "Resource" (list $arn) "Condition" $condition) -}}
{{- range $action, $paths := dict "s3:GetObject" $read "s3:PutObject" (sortAlpha $rights.write) -}}
{{- $resources := list -}}
{{- range $paths -}}{{- $resources = append $resources (printf "%s/%s" $arn .) -}}{{- end -}}
{{- if $resources -}}
{{- $statements = append $statements (dict "Effect" "Allow" "Action" (list $action) "Resource" $resources) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if .denied -}}
{{- $statements = append $statements (dict "Effect" "Deny" "Action" .denied) -}}
{{- end -}}
{{- toPrettyJson (dict "Version" "2012-10-17" "Statement" $statements) -}}
{{- end -}}

{{/* Restricted Pod Security for an image that has no user of its own. */}}
{{- define "hansa.minio.podSecurity" -}}
{{- include "hansa.podSecurity" . }}
runAsUser: {{ .Values.minio.runAsUser | int64 }}
runAsGroup: {{ .Values.minio.runAsUser | int64 }}
fsGroup: {{ .Values.minio.runAsUser | int64 }}
fsGroupChangePolicy: OnRootMismatch
{{- end -}}
