{{/* Refuses values that contradict each other, each with a sentence. */}}
{{- define "understudy.check" -}}
{{- $v := .Values -}}
{{- $role := include "understudy.role" . | fromYaml -}}
{{- $ports := include "understudy.ports" . | fromYaml -}}
{{- if and $v.ranks (not $role.ranks) -}}
{{- fail (printf "ranks: %v: only role vllm has ranks; set ranks to 0 and use replicas" $v.ranks) -}}
{{- end -}}
{{- if and $v.ranks (gt (int $v.replicas) 1) -}}
{{- fail "replicas and ranks: ranks makes one pod per rank; leave replicas at 1" -}}
{{- end -}}
{{- if and $v.ranks (hasKey $v.options "data-parallel-size") -}}
{{- fail "ranks and options.data-parallel-size: ranks has one engine per pod; set one of them" -}}
{{- end -}}
{{- if and $v.hpa.enabled $v.keda.enabled -}}
{{- fail "hpa.enabled and keda.enabled: both would set the number of pods; turn one off" -}}
{{- end -}}
{{- if and $v.ranks (or $v.hpa.enabled $v.keda.enabled) -}}
{{- fail "ranks and hpa or keda: the number of ranks is fixed; turn the autoscaler off" -}}
{{- end -}}
{{- range $scaler := list "hpa" "keda" -}}
{{- with index $v $scaler -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "%s.minReplicas: %v is above maxReplicas, %v" $scaler .minReplicas .maxReplicas) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $v.podMonitor.enabled $v.serviceMonitor.enabled -}}
{{- fail "podMonitor.enabled and serviceMonitor.enabled: each pod would be scraped twice; turn one off" -}}
{{- end -}}
{{- range $name, $number := $v.ports -}}
{{- if not (hasKey $role.listeners $name) -}}
{{- fail (printf "ports.%s: role %s has only %s" $name $v.role (keys $role.listeners | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- if ne (len $ports) (values $ports | uniq | len) -}}
{{- fail (printf "ports: each needs a number of its own, not %s" (toJson $ports)) -}}
{{- end -}}
{{- range $value := list "fixtures" "script" "faultPlan" "modelRepository" -}}
{{- with index $v $value -}}
{{- $option := index $role.files $value -}}
{{- if not $option -}}
{{- fail (printf "%s: role %s has no such option" $value $v.role) -}}
{{- end -}}
{{- if hasKey $v.options $option -}}
{{- fail (printf "%s and options.%s: both name the same files; set one of them" $value $option) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $path, $text := $v.modelRepository -}}
{{- if contains "__" $path -}}
{{- fail (printf "modelRepository.%s: __ stands for a slash in the ConfigMap; rename it, or mount a volume" $path) -}}
{{- end -}}
{{- end -}}
{{- if and (include "understudy.hasKeys" .) (not $role.keys) -}}
{{- fail "keys: role triton checks no keys; use options.http-restricted-api" -}}
{{- end -}}
{{- if and $v.keys.existingSecret (or $v.keys.api $v.keys.admin) -}}
{{- fail "keys.existingSecret and keys.api or keys.admin: set one of them" -}}
{{- end -}}
{{- if and $v.tls.existingSecret $v.tls.certificate -}}
{{- fail "tls.existingSecret and tls.certificate: set one of them" -}}
{{- end -}}
{{- if ne (empty $v.tls.certificate) (empty $v.tls.key) -}}
{{- fail "tls.certificate and tls.key: a certificate needs its key, and the other way round" -}}
{{- end -}}
{{- if and (include "understudy.hasTls" .) (not $role.tls) -}}
{{- fail "tls: Triton's OpenAI front end has no TLS" -}}
{{- end -}}
{{- with $v.inferencePool -}}
{{- if .enabled -}}
{{- if not $role.openai -}}
{{- fail "inferencePool.enabled: endpoint pickers need OpenAI's API; set options.openai to true for role triton" -}}
{{- end -}}
{{- if and (eq .appProtocol "kubernetes.io/h2c") (not (hasKey $ports "http2")) -}}
{{- fail "inferencePool.appProtocol kubernetes.io/h2c: needs ports.http2" -}}
{{- end -}}
{{- else if or .objectives .modelRewrites .route.enabled -}}
{{- fail "inferencePool.objectives, modelRewrites or route: need inferencePool.enabled" -}}
{{- end -}}
{{- end -}}
{{- end }}
