{{- define "hansa.minio" -}}
{{- printf "%s-minio" (include "hansa.fullname" .) -}}
{{- end -}}

{{- define "hansa.minio.root" -}}
{{- .Values.minio.existingSecret | default (printf "%s-root" (include "hansa.minio" .)) -}}
{{- end -}}
