{{/* Arguments of the server, one per line. With style `file` the options are in a configuration file. */}}
{{- define "understudy.args" -}}
{{- $options := include "understudy.options" . | fromJson -}}
{{- if eq (include "understudy.role" . | fromYaml).style "file" -}}
- serve
- --config=/etc/understudy/options/options.yaml
{{- else -}}
- serve
- --role=triton
{{- range $option, $value := omit $options "role" }}
{{- range $item := kindIs "slice" $value | ternary $value (list $value) }}
{{- $text := kindIs "string" $item | ternary $item (toJson $item) }}
- {{ printf "--%s=%s" $option $text | replace "$(" "$$(" | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* A probe of the role: takes the root and `ready` or `live`. */}}
{{- define "understudy.probe" -}}
{{- $root := index . 0 -}}
{{- $probe := (include "understudy.role" $root | fromYaml).probe -}}
{{- with index $probe (index . 1) -}}
httpGet: {path: {{ . }}, port: {{ $probe.listener }}, scheme: {{ include "understudy.scheme" $root }}}
{{- else -}}
tcpSocket: {port: {{ $probe.listener }}}
{{- end }}
{{- end }}

{{/* Labels of a pod: those that objects of the chart select by, and those of others. */}}
{{- define "understudy.podLabels" -}}
{{ include "understudy.labels" . }}
{{- with (include "understudy.role" . | fromYaml).engine }}
llm-d.ai/engine-type: {{ . }}
{{- end }}
{{- with .Values.llmdRole }}
llm-d.ai/role: {{ . }}
{{- end }}
{{- with .Values.dynamo.componentType }}
nvidia.com/metrics-enabled: "true"
nvidia.com/dynamo-component-type: {{ . }}
{{- end }}
{{- with .Values.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Template of the pods of a Deployment or a StatefulSet. */}}
{{- define "understudy.pod" -}}
{{- $name := include "understudy.name" . -}}
{{- $role := include "understudy.role" . | fromYaml -}}
metadata:
  labels:
    {{- include "understudy.podLabels" . | nindent 4 }}
  annotations:
    # A change of these restarts the pods. Fixtures and fault plans are read again without a restart, and polled models, too.
    {{- $models := eq (get .Values.options "model-control-mode") "poll" | ternary dict .Values.modelRepository }}
    checksum/start: {{ list (include "understudy.options" .) .Values.script .Values.keys .Values.tls $models | toJson | sha256sum | trunc 16 }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  # Variables of Services, such as VLLM_PORT, would look like options.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: server
      image: {{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        {{- include "understudy.args" . | nindent 8 }}
      # A crash file is written here, and outlives a restart of the container.
      workingDir: /tmp
      {{- if or (include "understudy.hasKeys" .) .Values.extraEnv }}
      env:
        {{- if include "understudy.hasKeys" . }}
        {{- range $variable, $key := dict "UNDERSTUDY_API_KEY" "api-key" "UNDERSTUDY_ADMIN_KEY" "admin-key" }}
        - name: {{ $variable }}
          valueFrom:
            secretKeyRef:
              name: {{ $.Values.keys.existingSecret | default (printf "%s-keys" $name) }}
              key: {{ $key }}
              optional: true
        {{- end }}
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      ports:
        {{- range $port, $number := include "understudy.ports" . | fromYaml }}
        - {name: {{ $port }}, containerPort: {{ $number }}, protocol: TCP}
        {{- end }}
      startupProbe:
        {{- include "understudy.probe" (list . "ready") | nindent 8 }}
        periodSeconds: 1
        failureThreshold: 120
      readinessProbe:
        {{- include "understudy.probe" (list . "ready") | nindent 8 }}
        initialDelaySeconds: {{ .Values.loadSeconds }}
        periodSeconds: 5
        timeoutSeconds: 5
      livenessProbe:
        {{- include "understudy.probe" (list . "live") | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- if eq $role.style "file" }}
        - {name: options, mountPath: /etc/understudy/options, readOnly: true}
        {{- end }}
        {{- if include "understudy.hasTls" . }}
        - {name: tls, mountPath: /etc/understudy/tls, readOnly: true}
        {{- end }}
        {{- range $value, $folder := dict "fixtures" "fixtures" "script" "script" "faultPlan" "fault-plan" "modelRepository" "models" }}
        {{- if index $.Values $value }}
        - {name: {{ $folder }}, mountPath: /etc/understudy/{{ $folder }}, readOnly: true}
        {{- end }}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    {{- if eq $role.style "file" }}
    - name: options
      configMap: {name: {{ $name }}-options}
    {{- end }}
    {{- if include "understudy.hasTls" . }}
    - name: tls
      secret: {secretName: {{ .Values.tls.existingSecret | default (printf "%s-tls" $name) }}, defaultMode: 0440}
    {{- end }}
    {{- range $value, $folder := dict "fixtures" "fixtures" "script" "script" "faultPlan" "fault-plan" }}
    {{- if index $.Values $value }}
    - name: {{ $folder }}
      configMap: {name: {{ $name }}-{{ $folder }}}
    {{- end }}
    {{- end }}
    {{- if .Values.modelRepository }}
    # All files are below one folder, because a volume's root also has links that Triton would take for models.
    - name: models
      configMap:
        name: {{ $name }}-models
        items:
          {{- range $path, $text := .Values.modelRepository }}
          - {key: {{ include "understudy.key" $path }}, path: repository/{{ $path }}}
          {{- end }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- range $field := list "nodeSelector" "tolerations" "affinity" }}
  {{- with index $.Values $field }}
  {{ $field }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end }}
