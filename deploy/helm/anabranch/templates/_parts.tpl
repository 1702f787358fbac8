{{- define "anabranch.labels" -}}
app.kubernetes.io/name: anabranch
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "anabranch.selector" -}}
app.kubernetes.io/name: anabranch
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "anabranch.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "anabranch.podSecurity" -}}
automountServiceAccountToken: false
# Variables of services, such as ANABRANCH_SERVER_PORT, would be settings that do not exist.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "anabranch.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- define "anabranch.volumes" -}}
volumes:
  - name: data
    emptyDir: {}
  - name: tmp
    emptyDir: {}
{{- end }}

{{- define "anabranch.mounts" -}}
volumeMounts:
  - name: data
    mountPath: /data
  - name: tmp
    mountPath: /tmp
{{- end }}

{{- define "anabranch.environment" -}}
envFrom:
  - secretRef:
      name: {{ .Values.secretName }}
env:
  {{- include "anabranch.settings" . | nindent 2 }}
{{- end }}

{{- define "anabranch.settings" -}}
- name: ANABRANCH_GRACE
  value: {{ printf "%ds" (int .Values.graceSeconds) | quote }}
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "anabranch.placement" -}}
{{- if .Values.nodeSelector }}
nodeSelector:
  {{- toYaml .Values.nodeSelector | nindent 2 }}
{{- end }}
{{- if .Values.tolerations }}
tolerations:
  {{- toYaml .Values.tolerations | nindent 2 }}
{{- end }}
{{- end }}
