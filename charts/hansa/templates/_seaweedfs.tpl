{{- define "hansa.seaweedfs" -}}
{{- printf "%s-seaweedfs" (include "hansa.fullname" .) -}}
{{- end -}}

{{/*
All that is made at random, as JSON: {users: {name: key in base64}, root, crt, key}. Made once: what is in the
cluster is read again, and what this rendering made is kept, since Secret and Deployment both ask.
*/}}
{{- define "hansa.seaweedfs.made" -}}
{{- if not (hasKey .Values.seaweedfs "made") -}}
{{- $name := printf "%s-users" (include "hansa.seaweedfs" .) -}}
{{- $old := (lookup "v1" "Secret" .Release.Namespace $name).data | default dict -}}
{{- $users := dict -}}
{{- range include "hansa.store.users" . | fromJsonArray -}}
{{- $_ := set $users .user (get $old .user | default (randAlphaNum 40 | b64enc)) -}}
{{- end -}}
{{- $root := (lookup "v1" "Secret" .Release.Namespace (printf "%s-root" (include "hansa.seaweedfs" .))).data | default dict -}}
{{- $tls := dict "crt" (get $old "tls.crt") "key" (get $old "tls.key") -}}
{{- if not (and $tls.crt $tls.key) -}}
{{- $fresh := genSelfSignedCert "seaweedfs" nil nil 36500 -}}
{{- $tls = dict "crt" ($fresh.Cert | b64enc) "key" ($fresh.Key | b64enc) -}}
{{- end -}}
{{- $_ := set .Values.seaweedfs "made" (dict
  "users" $users
  "root" ($root.AWS_SECRET_ACCESS_KEY | default (randAlphaNum 40 | b64enc))
  "crt" $tls.crt
  "key" $tls.key)
-}}
{{- end -}}
{{- toJson .Values.seaweedfs.made -}}
{{- end -}}

{{/* Its identities: each user has the policy that `hansa policy` prints, and one that no user can be named like has all rights. */}}
{{- define "hansa.seaweedfs.identities" -}}
{{- $made := include "hansa.seaweedfs.made" . | fromJson -}}
{{- $identities := list -}}
{{- $policies := list -}}
{{- range include "hansa.store.users" . | fromJsonArray -}}
{{- $pair := dict "accessKey" .user "secretKey" (get $made.users .user | b64dec) -}}
{{- $identities = append $identities (dict "name" .user "credentials" (list $pair) "policyNames" (list .user)) -}}
{{- $policies = append $policies (dict "name" .user "content" (include "hansa.store.policy" .)) -}}
{{- end -}}
{{- $pair := dict "accessKey" "hansa_root" "secretKey" ($made.root | b64dec) -}}
{{- $identities = append $identities (dict "name" "hansa_root" "credentials" (list $pair) "actions" (list "Admin")) -}}
{{- toPrettyJson (dict "identities" $identities "policies" $policies) -}}
{{- end -}}
