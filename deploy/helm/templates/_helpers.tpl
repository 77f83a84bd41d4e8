{{/* The name of the browser controller's objects, and the start of all other names. With -infrastructure it must fit into a label. */}}
{{- define "podloom.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "podloom" .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-podloom" (.Release.Name | trunc 40 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{/* The name of a duty's objects: (list root duty). */}}
{{- define "podloom.name" -}}
{{- $full := include "podloom.fullname" (index . 0) -}}
{{- eq (index . 1) "browser" | ternary $full (printf "%s-%s" $full (index . 1)) -}}
{{- end -}}

{{/* The duties that are enabled, as JSON. */}}
{{- define "podloom.duties" -}}
{{- $duties := list -}}
{{- range list "browser" "portal" "infrastructure" "cleaner" "rollout" "webhook" -}}
{{- if (index $.Values .).enabled -}}
{{- $duties = append $duties . -}}
{{- end -}}
{{- end -}}
{{- toJson $duties -}}
{{- end -}}

{{/* The Deployments, as JSON: the name of each, its duties, and the key of its values. */}}
{{- define "podloom.workloads" -}}
{{- $duties := include "podloom.duties" . | fromJsonArray -}}
{{- $workloads := list -}}
{{- if .Values.together.enabled -}}
{{- $workloads = list (dict "name" (include "podloom.fullname" .) "duties" $duties "key" "together") -}}
{{- else -}}
{{- range $duties -}}
{{- $workloads = append $workloads (dict "name" (include "podloom.name" (list $ .)) "duties" (list .) "key" .) -}}
{{- end -}}
{{- end -}}
{{- toJson $workloads -}}
{{- end -}}

{{/* The name of the Deployment that has a duty: (list root duty). */}}
{{- define "podloom.workload" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.together.enabled -}}
{{- include "podloom.fullname" $root -}}
{{- else -}}
{{- include "podloom.name" . -}}
{{- end -}}
{{- end -}}

{{/* The ServiceAccount of a duty: (list root duty). */}}
{{- define "podloom.account" -}}
{{- $values := (index . 0).Values -}}
{{- $own := $values.together.enabled | ternary $values.together (index $values (index . 1)) -}}
{{- $own.serviceAccount | default (include "podloom.workload" .) -}}
{{- end -}}

{{/* The labels of an object: (list root name). */}}
{{- define "podloom.labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/*
A file of files/ with the names of this release: (list root file). The files are those of the kustomize components, so all names in
them begin with podloom, and the namespace is podloom-system. What is for each watched namespace is in WATCHED, which no namespace
is called.
*/}}
{{- define "podloom.file" -}}
{{- $root := index . 0 -}}
{{- $full := include "podloom.fullname" $root -}}
{{- $text := $root.Files.Get (index . 1) | replace "namespace: watched\n" "namespace: WATCHED\n" -}}
{{- $text = $text | replace "namespace: podloom-system" (printf "namespace: %q" $root.Release.Namespace) -}}
{{- range list "name: " "Name: " "[" -}}
{{- $text = $text | replace (printf "%spodloom" .) (printf "%s%s" . $full) -}}
{{- end -}}
{{- $text = $text | replace ".podloom-system.svc" (printf ".%s.svc" $root.Release.Namespace) -}}
{{- if eq $root.Values.selenosisApi "split" -}}
{{- range list "browser" "browserconfig" -}}
{{- $resource := printf "]\n  resources: [%ss" . -}}
{{- $text = $text | replace (printf "[selenosis.io%s" $resource) (printf "[%s.selenosis.io%s" . $resource) -}}
{{- end -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{/* The volume of a chain: (list values isOptional), with the values of plugins or candidate. */}}
{{- define "podloom.chain" -}}
{{- $values := index . 0 -}}
{{- $isOptional := index . 1 -}}
{{- if $values.volume -}}
{{- toYaml $values.volume -}}
{{- else if eq (len $values.configMaps) 1 -}}
configMap:
  name: {{ first $values.configMaps }}
  defaultMode: 0444
  {{- if $isOptional }}
  optional: true
  {{- end }}
{{- else -}}
projected:
  defaultMode: 0444
  sources:
  {{- range $index, $name := $values.configMaps }}
  - configMap:
      name: {{ $name }}
      {{- if or $index $isOptional }}
      optional: true
      {{- end }}
  {{- end }}
{{- end -}}
{{- end -}}

{{/* Whether the operator makes no certificates for its webhooks: true or nothing. */}}
{{- define "podloom.hasCertificates" -}}
{{- if ne .Values.webhook.certificates.from "operator" -}}true{{- end -}}
{{- end -}}

{{/* Fails if values contradict each other, where the schema cannot say it. */}}
{{- define "podloom.check" -}}
{{- $duties := include "podloom.duties" . | fromJsonArray -}}
{{- if not $duties -}}
{{- fail "no duty is enabled: set enabled of browser, portal, infrastructure, cleaner, rollout or webhook to true" -}}
{{- end -}}
{{- if and .Values.namespaces .Values.webhook.enabled -}}
{{- fail "namespaces does not go with webhook.enabled, since webhook configurations are for the whole cluster: install the webhooks as a release of their own" -}}
{{- end -}}
{{- range list "plugins" "candidate" -}}
{{- $chain := index $.Values . -}}
{{- if and $chain.configMaps $chain.volume -}}
{{- fail (printf "%s.configMaps does not go with %s.volume: a chain comes from one place" . .) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.candidate.rollout (not (or .Values.candidate.configMaps .Values.candidate.volume)) -}}
{{- fail "candidate.rollout needs candidate.configMaps or candidate.volume: there is nothing to roll out" -}}
{{- end -}}
{{- if and .Values.webhook.gate.enabled (not .Values.webhook.enabled) -}}
{{- fail "webhook.gate.enabled needs webhook.enabled: the webhook opens the gate" -}}
{{- end -}}
{{- if not .Values.webhook.enabled -}}
{{- range list "heal" "reports" "updates" "workloads" -}}
{{- if get $.Values.webhook . -}}
{{- fail (printf "webhook.%s needs webhook.enabled: the webhook does it" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.webhook.gate.strict (not .Values.webhook.gate.enabled) -}}
{{- fail "webhook.gate.strict needs webhook.gate.enabled: without a gate there is nothing to go around" -}}
{{- end -}}
{{- $certificates := .Values.webhook.certificates -}}
{{- if and (eq $certificates.from "secret") (not (and $certificates.secret $certificates.caBundle)) -}}
{{- fail "webhook.certificates.from is secret: name the Secret in webhook.certificates.secret, and its authority in webhook.certificates.caBundle" -}}
{{- end -}}
{{- if and .Values.priorityClass.create .Values.priorityClass.name -}}
{{- fail "priorityClass.create does not go with priorityClass.name: the class that is created has the name of the release" -}}
{{- end -}}
{{- end -}}

{{/* The image of the operator. */}}
{{- define "podloom.image" -}}
{{- $image := .Values.image -}}
{{- $image.repository -}}
{{- if or $image.tag (not $image.digest) -}}:{{ $image.tag | default .Chart.AppVersion }}{{- end -}}
{{- with $image.digest -}}@{{ . }}{{- end -}}
{{- end -}}

{{/* The Secret with the webhooks' certificate, if the operator does not make it. */}}
{{- define "podloom.certificate" -}}
{{- if eq .Values.webhook.certificates.from "secret" -}}
{{- .Values.webhook.certificates.secret -}}
{{- else -}}
{{- include "podloom.name" (list . "webhook") }}-cert-manager
{{- end -}}
{{- end -}}

{{/* Which namespaces the webhook is asked about, as YAML. */}}
{{- define "podloom.selector" -}}
{{- $selector := deepCopy .Values.webhook.namespaceSelector }}
{{- $system := list "kube-system" "kube-public" "kube-node-lease" .Release.Namespace | uniq }}
{{- $rule := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" $system }}
{{- $_ := set $selector "matchExpressions" (append ($selector.matchExpressions | default list) $rule) }}
{{- toYaml $selector }}
{{- end -}}
