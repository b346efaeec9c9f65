{{/* Name of every object; parts of it have suffixes. */}}
{{- define "understudy.name" -}}
{{ .Values.fullnameOverride | default .Release.Name | trunc 48 | trimSuffix "-" }}
{{- end }}

{{- define "understudy.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "understudy.labels" -}}
{{ include "understudy.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Head of an object: takes the root, a suffix, and more labels. */}}
{{- define "understudy.metadata" -}}
{{- $root := index . 0 -}}
metadata:
  name: {{ include "understudy.name" $root }}{{ index . 1 }}
  labels:
    {{- include "understudy.labels" $root | nindent 4 }}
    {{- with index . 2 }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end }}

{{/* Facts about the role, from files/roles.yaml. */}}
{{- define "understudy.role" -}}
{{- $key := .Values.role -}}
{{- if and (eq $key "triton") .Values.options.openai }}{{ $key = "triton-openai" }}{{ end -}}
{{- index (.Files.Get "files/roles.yaml" | fromYaml) $key | toYaml -}}
{{- end }}

{{/* Numbers of the open ports by name. */}}
{{- define "understudy.ports" -}}
{{- $ports := dict -}}
{{- range $name, $listener := (include "understudy.role" . | fromYaml).listeners -}}
{{- $number := index $.Values.ports $name | default $listener.number -}}
{{- if $number }}{{- $_ := set $ports $name (int $number) }}{{ end -}}
{{- end -}}
{{- toYaml $ports -}}
{{- end }}

{{- define "understudy.hasTls" -}}
{{- if or .Values.tls.existingSecret .Values.tls.certificate }}true{{ end -}}
{{- end }}

{{- define "understudy.hasKeys" -}}
{{- if or .Values.keys.existingSecret .Values.keys.api .Values.keys.admin }}true{{ end -}}
{{- end }}

{{/* HTTP or HTTPS, as probes write it. */}}
{{- define "understudy.scheme" -}}
{{- if and (include "understudy.hasTls" .) (include "understudy.role" . | fromYaml).tls.https }}HTTPS{{ else }}HTTP{{ end -}}
{{- end }}

{{/*
All options of the server: those of the chart over those of the values over the role's defaults. Written as JSON, because
toYaml gives large numbers an exponent. `merge` would take a false for a missing value.
*/}}
{{- define "understudy.options" -}}
{{- $role := include "understudy.role" . | fromYaml -}}
{{- $ports := include "understudy.ports" . | fromYaml -}}
{{- $options := dict -}}
{{- range $layer := list $role.defaults .Values.options $role.set -}}
{{- range $option, $value := $layer }}{{- $_ := set $options $option $value }}{{ end -}}
{{- end -}}
{{- range $name, $number := $ports -}}
{{- $listener := index $role.listeners $name -}}
{{- $_ := set $options $listener.port $number -}}
{{- with $listener.address }}{{- $_ := set $options . "0.0.0.0" }}{{ end -}}
{{- end -}}
{{- range $value, $option := $role.files -}}
{{- if index $.Values $value }}{{- $_ := set $options $option (include "understudy.path" $value) }}{{ end -}}
{{- end -}}
{{- if include "understudy.hasTls" . -}}
{{- range $option, $value := $role.tls.options -}}
{{- if kindIs "string" $value }}{{ $value = printf "/etc/understudy/tls/%s" $value }}{{ end -}}
{{- $_ := set $options $option $value -}}
{{- end -}}
{{- end -}}
{{- toJson $options -}}
{{- end }}

{{/* Path in the container of the file or folder that a value fills. */}}
{{- define "understudy.path" -}}
{{- $paths := dict "fixtures" "fixtures" "script" "script/script.json" "faultPlan" "fault-plan/plan.yaml" "modelRepository" "models/repository" -}}
/etc/understudy/{{ index $paths . }}
{{- end }}

{{/* Key of a ConfigMap for the path of a file: keys have no slashes. */}}
{{- define "understudy.key" -}}
{{ . | replace "/" "__" }}
{{- end }}
