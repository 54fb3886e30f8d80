{{/* Which store for trying out is deployed: minio, seaweedfs, or nothing. */}}
{{- define "hansa.store" -}}
{{- $store := .Values.store | default (ternary "minio" "" .Values.minio.enabled) -}}
{{- if and .Values.minio.enabled (ne $store "minio") -}}
{{- fail (printf "store: got %s beside minio.enabled, expected one store (minio.enabled is another way to write store: minio)" $store) -}}
{{- end -}}
{{- $other := ternary "seaweedfs" "minio" (eq $store "minio") -}}
{{- if and $store (get .Values $other | default dict).federations -}}
{{- fail (printf "%s.federations: got some with store %s, expected them in %s.federations" $other $store $store) -}}
{{- end -}}
{{- $store -}}
{{- end -}}

{{- define "hansa.store.name" -}}
{{- printf "%s-%s" (include "hansa.fullname" .) (include "hansa.store" .) -}}
{{- end -}}

{{- define "hansa.store.url" -}}
{{- $port := (get .Values (include "hansa.store" .)).port | int -}}
{{- printf "http://%s.%s.svc:%d" (include "hansa.store.name" .) .Release.Namespace $port -}}
{{- end -}}

{{/*
Everyone who gets a user, as JSON: [{user, party, federation, namespace, bucket, prefix, model, isElsewhere, hasElsewhere, isSecure}].
The user's name is also that of its Secret and, in MinIO after "hansa-", of its policy.
*/}}
{{- define "hansa.store.users" -}}
{{- $users := list -}}
{{- $seen := dict -}}
{{- $store := include "hansa.store" . -}}
{{- range $index, $federation := (get .Values $store).federations -}}
{{- if has "aggregator" (concat $federation.environments ($federation.members | default list)) -}}
{{- fail (printf "%s.federations[%d].environments: got aggregator, expected names of environments (the aggregator gets a user of its own)" $store $index) -}}
{{- end -}}
{{- range $party := concat (list "aggregator") $federation.environments ($federation.members | default list) -}}
{{- $user := printf "%s-%s" $federation.name $party -}}
{{- if hasKey $seen $user -}}
{{- fail (printf "%s.federations[%d]: got a second Secret %s, expected names that stay different when federation and environment are joined by -" $store $index $user) -}}
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
  "model" ($federation.modelSource | default "")
  "isElsewhere" (has $party ($federation.members | default list))
  "hasElsewhere" (not (empty $federation.members))
  "isSecure" ($federation.secure | default false))
-}}
{{- end -}}
{{- end -}}
{{- toJson $users -}}
{{- end -}}

{{/* The policy of one of them, as `hansa policy` prints it; `denied` lists actions it forbids. */}}
{{- define "hansa.store.policy" -}}
{{- $under := ternary "" (printf "%s/" .prefix) (empty .prefix) -}}
{{- $read := list (print $under "federation.json") (print $under "global/*") (print $under "audit/*") -}}
{{- $write := list -}}
{{- $buckets := dict -}}
{{- if eq .party "aggregator" -}}
{{- $write = $read -}}
{{- if .isSecure -}}{{- $write = append $write (print $under "claims/*") -}}{{- end -}}
{{- $read = append $write (print $under "updates/*") -}}
{{- if .hasElsewhere -}}
{{- $write = append $write (print $under "orders/*") -}}
{{- $read = concat $read (list (print $under "orders/*") (print $under "answers/*")) -}}
{{- end -}}
{{- else -}}
{{- $own := ternary (list "updates" "evaluations" "experience" "answers") (list "updates" "evaluations" "experience") .isElsewhere -}}
{{- if .isSecure -}}{{- $own = append $own "claims" -}}{{- end -}}
{{- range $own -}}
{{- $write = append $write (printf "%s%s/%s/*" $under . $.party) -}}
{{- end -}}
{{- $read = concat $read $write -}}
{{- if .isElsewhere -}}
{{- $read = append $read (printf "%sorders/%s/*" $under .party) -}}
{{- end -}}
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
{{- range list (list "s3:GetObject" $read) (list "s3:PutObject" (sortAlpha $rights.write)) -}}
{{- $resources := list -}}
{{- range index . 1 -}}{{- $resources = append $resources (printf "%s/%s" $arn .) -}}{{- end -}}
{{- if $resources -}}
{{- $statements = append $statements (dict "Effect" "Allow" "Action" (list (index . 0)) "Resource" $resources) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if .denied -}}
{{- $statements = append $statements (dict "Effect" "Deny" "Action" .denied) -}}
{{- end -}}
{{- toPrettyJson (dict "Version" "2012-10-17" "Statement" $statements) -}}
{{- end -}}

{{/* The Secret of one user: (list $ user key-in-base64) */}}
{{- define "hansa.store.secret" -}}
{{- $root := index . 0 -}}
{{- $user := index . 1 -}}
apiVersion: v1
kind: Secret
metadata:
  name: {{ $user.user | quote }}
  namespace: {{ $user.namespace | quote }}
  labels:
    {{- include "hansa.labels" (list $root (include "hansa.store" $root)) | nindent 4 }}
    hansa.dev/federation: {{ $user.federation | quote }}
type: Opaque
data:
  AWS_ACCESS_KEY_ID: {{ $user.user | b64enc }}
  AWS_SECRET_ACCESS_KEY: {{ index . 2 }}
  # By this key it consents to be used by that party of that federation.
  {{ printf "hansa.%s.%s" $user.federation $user.party }}: {{ "yes" | b64enc }}
{{- end -}}

{{/* Restricted Pod Security for an image that has no user of its own. */}}
{{- define "hansa.store.podSecurity" -}}
{{- $user := (get .Values (include "hansa.store" .)).runAsUser | int64 -}}
{{- include "hansa.podSecurity" . }}
runAsUser: {{ $user }}
runAsGroup: {{ $user }}
fsGroup: {{ $user }}
fsGroupChangePolicy: OnRootMismatch
{{- end -}}
