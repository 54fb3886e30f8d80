{{/* Name of the chart, or what stands in for it. */}}
{{- define "hansa.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* First part of every object's name; short, so that the longest suffix still fits 63 characters. */}}
{{- define "hansa.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "hansa.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "hansa.operator" -}}
{{- printf "%s-operator" (include "hansa.fullname" .) -}}
{{- end -}}

{{/* Labels that never change, since a Deployment cannot change its selector: (list $ "component") */}}
{{- define "hansa.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "hansa.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* All labels of an object: (list $ "component") */}}
{{- define "hansa.labels" -}}
{{- $root := index . 0 -}}
{{ include "hansa.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: hansa
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* One of Hansa's images: (list $ .Values.images.client) */}}
{{- define "hansa.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $name := $image.repository -}}
{{- with $root.Values.images.registry -}}
{{- $name = printf "%s/%s" (trimSuffix "/" .) $name -}}
{{- end -}}
{{- $name -}}:{{- $image.tag | default $root.Chart.AppVersion -}}
{{- with $image.digest -}}@{{ . }}{{- end -}}
{{- end -}}

{{- define "hansa.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "hansa.operator" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "hansa.leaseName" -}}
{{- .Values.lease.name | default (include "hansa.operator" .) -}}
{{- end -}}

{{- define "hansa.leaseNamespace" -}}
{{- .Values.lease.namespace | default .Release.Namespace -}}
{{- end -}}

{{/* Pod Security "restricted", for the Pod and for its containers. */}}
{{- define "hansa.podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "hansa.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* What the operator does, and nothing it does not: the rules of its Role or ClusterRole. */}}
{{- define "hansa.rules" -}}
- apiGroups: [hansa.dev]
  resources: [federations, federationmembers]
  verbs: [list, watch]
- apiGroups: [hansa.dev]
  resources: [federations/status, federationmembers/status]
  verbs: [update]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch, create, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [list, create]
{{- end -}}

{{/* DNS, wherever it is answered. */}}
{{- define "hansa.dnsEgress" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- end -}}

{{/* Labels of an alert: (list .Values.metrics.prometheusRule.alertLabels "warning") */}}
{{- define "hansa.alertLabels" -}}
severity: {{ index . 1 }}
{{- with (index . 0) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Annotations of what lives only while `helm test` runs, whichever way it ends. */}}
{{- define "hansa.testHook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}

{{/* Where `helm test` tries a federation: a namespace that is watched. */}}
{{- define "hansa.testNamespace" -}}
{{- first (append .Values.watch.namespaces .Release.Namespace) -}}
{{- end -}}
