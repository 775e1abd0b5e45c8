{{- define "reconciler.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "reconciler.image" -}}
{{- $image := .Values.image -}}
{{- required "image.repository: is empty, expected the image that you built with deploy/Dockerfile" $image.repository -}}
{{- with $image.tag }}:{{ . }}{{ end -}}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end }}
