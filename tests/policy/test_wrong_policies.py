"""Wrong policies, each with exactly the lines a person reads: file, line, column, field, what is, what was expected."""

from __future__ import annotations

import pytest

from tests.policy.base import FILES, edited, problems_in

CASES = [
    pytest.param(
        "federated.yaml",
        "maxReplicas: 20, weight: 1",
        "maxReplicas: 20, wieght: 1",
        [
            'policies/federated.yaml:10:50: spec.preferences.clusters.us-east.wieght: unknown field, did you mean "weight"?',
        ],
        id="misspelt field in a cluster's preference",
    ),
    pytest.param(
        "federated.yaml",
        "maxReplicas: 20, weight: 1",
        "maxReplicas: 20, weight: -1",
        [
            'policies/federated.yaml:10:58: spec.preferences.clusters.us-east.weight: is "-1", expected a whole number of at least 0',
        ],
        id="negative weight",
    ),
    pytest.param(
        "federated.yaml",
        "maxReplicas: 20, weight: 1",
        "maxReplicas: 20, weight: heavy",
        [
            'policies/federated.yaml:10:58: spec.preferences.clusters.us-east.weight: is "heavy", expected a whole number of at least 0',
        ],
        id="weight as text",
    ),
    pytest.param(
        "federated.yaml",
        "replicas: 50",
        "replicas: 1.5",
        [
            'policies/federated.yaml:5:13: spec.replicas: is "1.5", expected a whole number of at least 0',
        ],
        id="fraction of a replica",
    ),
    pytest.param(
        "federated.yaml",
        "replicas: 50",
        "replicas: 2147483648",
        [
            'policies/federated.yaml:5:13: spec.replicas: is "2147483648", expected a number of at most 2147483647',
        ],
        id="replicas above an int32",
    ),
    pytest.param(
        "federated.yaml",
        "  replicas: 50\n",
        "",
        [
            "policies/federated.yaml:5:3: spec.replicas: is missing, expected a whole number of at least 0",
        ],
        id="replicas missing",
    ),
    pytest.param(
        "federated.yaml",
        "replicas: 50",
        "replicas:",
        [
            "policies/federated.yaml:5:12: spec.replicas: is empty, expected a whole number of at least 0",
        ],
        id="replicas empty",
    ),
    pytest.param(
        "federated.yaml",
        "minReplicas: 0, maxReplicas: 20",
        "minReplicas: 30, maxReplicas: 20",
        [
            'policies/federated.yaml:10:47: spec.preferences.clusters.us-east.maxReplicas: is "20", expected at least minReplicas, which is "30"',
        ],
        id="maximum below minimum",
    ),
    pytest.param(
        "federated.yaml",
        "us-east:",
        "us-esat:",
        [
            'policies/federated.yaml:10:7: spec.preferences.clusters.us-esat: unknown cluster, expected a cluster of the Fleet, did you mean "us-east"?',
        ],
        id="unknown cluster in preferences",
    ),
    pytest.param(
        "federated.yaml",
        "  replicas: 50\n",
        "  replicas: 50\n  rounding: fiar\n",
        [
            'policies/federated.yaml:6:13: spec.rounding: is "fiar", expected "Fair" or "KubeFed", did you mean "Fair"?',
        ],
        id="unknown rounding",
    ),
    pytest.param(
        "federated.yaml",
        "preferences:",
        "preference:",
        [
            'policies/federated.yaml:6:3: spec.preference: unknown field, did you mean "preferences"?',
        ],
        id="misspelt preferences",
    ),
    pytest.param(
        "federated.yaml",
        "rebalance: true",
        "rebalance: yes",
        [
            'policies/federated.yaml:7:16: spec.preferences.rebalance: is "yes", expected true or false',
        ],
        id="rebalance as YAML 1.1 truth",
    ),
    pytest.param(
        "federated.yaml",
        '      containers:\n        - {name: web, image: "registry.example/web:1"}\n',
        "      containers: []\n",
        [
            "policies/federated.yaml:15:19: spec.template.spec.containers: is an empty list, expected a list with at least 1 entry",
        ],
        id="template without containers",
    ),
    pytest.param(
        "federated.yaml",
        "metadata: {labels: {app: web}}",
        "metadata: {labels: {app: wbe}}",
        [
            "policies/federated.yaml:13:24: spec.template.metadata.labels: do not match spec.selector, expected labels that it selects",
        ],
        id="template labels that the selector does not select",
    ),
    pytest.param(
        "federated.yaml",
        "selector: {matchLabels: {app: web}}",
        "selector: {}",
        [
            "policies/federated.yaml:11:13: spec.selector: selects everything, expected labels of the template",
        ],
        id="empty selector",
    ),
    pytest.param(
        "federated.yaml",
        "  replicas: 50\n",
        "  replicas: 50\n  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n",
        [
            "policies/federated.yaml:12:3: spec.selector: is beside targetRef, expected either targetRef, or selector and template",
        ],
        id="targetRef beside a template",
    ),
    pytest.param(
        "federated.yaml",
        "  selector: {matchLabels: {app: web}}\n",
        "",
        [
            "policies/federated.yaml:5:3: spec.selector: is missing, expected selector and template, or targetRef",
        ],
        id="selector missing",
    ),
    pytest.param(
        "federated.yaml",
        "{name: web, namespace: shop}",
        "{name: Web_1, namespace: shop}",
        [
            'policies/federated.yaml:3:18: metadata.name: is "Web_1", expected a name of lower-case letters, digits, - and . that starts and ends with a letter or digit',
        ],
        id="name that Kubernetes refuses",
    ),
    pytest.param(
        "federated.yaml",
        "  replicas: 50\n",
        "  replicas: 50\n  waitingReplicas: -2\n",
        [
            'policies/federated.yaml:6:20: spec.waitingReplicas: is "-2", expected a whole number of at least 0',
        ],
        id="waiting replicas below zero",
    ),
    pytest.param(
        "federated.yaml",
        "  replicas: 50\n",
        "  replicas: 50\n  unschedulableAfter: 300\n",
        [
            'policies/federated.yaml:6:23: spec.unschedulableAfter: is "300", expected a duration like 90s, 30m, 1h30m or 2d, at most 999d',
        ],
        id="duration without a unit",
    ),
    pytest.param(
        "federated.yaml",
        "  replicas: 50\n",
        "  replicas: 50\n  clusterGracePeriod: 10min\n",
        [
            'policies/federated.yaml:6:23: spec.clusterGracePeriod: is "10min", expected a duration like 90s, 30m, 1h30m or 2d, at most 999d',
        ],
        id="duration with a wrong unit",
    ),
    pytest.param(
        "federated.yaml",
        "  replicas: 50\n",
        "  replicas: 50\n  onConflict: replace\n",
        [
            'policies/federated.yaml:6:15: spec.onConflict: is "replace", expected "Overwrite" or "Abort"',
        ],
        id="unknown onConflict",
    ),
    pytest.param(
        "idling.yaml",
        "kind: IdlingPolicy",
        "kind: IdelingPolicy",
        [
            'policies/idling.yaml:2:7: kind: is "IdelingPolicy", expected "Fleet", "IdlingPolicy", "Calendar", "FederatedReplicaSet" or "DownscalePolicy", did you mean "IdlingPolicy"?',
        ],
        id="unknown kind",
    ),
    pytest.param(
        "idling.yaml",
        "kind: IdlingPolicy\n",
        "",
        [
            'policies/idling.yaml:1:1: kind: is missing, expected "Fleet", "IdlingPolicy", "Calendar", "FederatedReplicaSet" or "DownscalePolicy"',
        ],
        id="kind missing",
    ),
    pytest.param(
        "idling.yaml",
        "reconciler/v1alpha1",
        "reconciler/v1",
        [
            'policies/idling.yaml:1:13: apiVersion: is "reconciler/v1", expected "reconciler/v1alpha1"',
        ],
        id="unknown apiVersion",
    ),
    pytest.param(
        "idling.yaml",
        "apiVersion: reconciler/v1alpha1\n",
        "",
        [
            'policies/idling.yaml:1:1: apiVersion: is missing, expected "reconciler/v1alpha1"',
        ],
        id="apiVersion missing",
    ),
    pytest.param(
        "idling.yaml",
        "metadata: {name: idle-dev}\n",
        "",
        [
            "policies/idling.yaml:1:1: metadata: is missing, expected a mapping",
        ],
        id="metadata missing",
    ),
    pytest.param(
        "idling.yaml",
        "metadata: {name: idle-dev}",
        "metadata: {}",
        [
            "policies/idling.yaml:3:11: metadata.name: is missing, expected a name of lower-case letters, digits, - and . that starts and ends with a letter or digit",
        ],
        id="name missing",
    ),
    pytest.param(
        "idling.yaml",
        "idleWhen:",
        "idelWhen:",
        [
            'policies/idling.yaml:10:3: spec.idelWhen: unknown field, did you mean "idleWhen"?',
        ],
        id="misspelt idleWhen",
    ),
    pytest.param(
        "idling.yaml",
        "    - schedule:\n        calendar: nights\n",
        "    - {}\n",
        [
            "policies/idling.yaml:15:7: spec.idleWhen[1]: is empty, expected exactly one of metric, schedule, anyOf and allOf",
        ],
        id="idleWhen empty",
    ),
    pytest.param(
        "idling.yaml",
        "    - schedule:\n        calendar: nights\n",
        "    - schedule: {calendar: nights}\n      anyOf: []\n",
        [
            "policies/idling.yaml:16:14: spec.idleWhen[1].anyOf: is an empty list, expected a list with at least 1 entry",
        ],
        id="a criterion of two kinds",
    ),
    pytest.param(
        "idling.yaml",
        "calendar: nights",
        "calendar: night",
        [
            'policies/idling.yaml:16:19: spec.idleWhen[1].schedule.calendar: is "night", expected the name of a Calendar, did you mean "nights"?',
        ],
        id="misspelt calendar",
    ),
    pytest.param(
        "idling.yaml",
        "        calendar: nights\n",
        '        calendar: nights\n        downtime: ["20:00-07:00"]\n',
        [
            "policies/idling.yaml:16:9: spec.idleWhen[1].schedule: has a calendar and hours of its own, expected one of the two",
        ],
        id="calendar beside windows",
    ),
    pytest.param(
        "idling.yaml",
        "        calendar: nights\n",
        '        downtime: ["20:00-07:00"]\n',
        [
            "policies/idling.yaml:16:9: spec.idleWhen[1].schedule.timeZone: is missing, expected a calendar by name, or timeZone and downtime or uptime here",
        ],
        id="own windows without a time zone",
    ),
    pytest.param(
        "idling.yaml",
        "mode: Enforce",
        "mode: enforced",
        [
            'policies/idling.yaml:5:9: spec.mode: is "enforced", expected "Enforce" or "Observe", did you mean "Enforce"?',
        ],
        id="unknown mode",
    ),
    pytest.param(
        "idling.yaml",
        "  mode: Enforce\n",
        "  mode: Enforce\n  priority: high\n",
        [
            'policies/idling.yaml:6:13: spec.priority: is "high", expected a whole number',
        ],
        id="priority as text",
    ),
    pytest.param(
        "idling.yaml",
        "include: [eu-west]",
        "include: [eu-wset]",
        [
            'policies/idling.yaml:7:26: spec.selector.clusters.include[0]: is "eu-wset", expected a cluster of the Fleet, did you mean "eu-west"?',
        ],
        id="misspelt cluster",
    ),
    pytest.param(
        "idling.yaml",
        "    services: {matchLabels: {tier: web}}\n",
        "",
        [
            "policies/idling.yaml:7:5: spec.selector: selects nothing, expected services, workloads or both",
            "policies/idling.yaml:10:5: spec.idleWhen: has a metric criterion, expected only schedules for workloads that are selected without a Service",
        ],
        id="no services and no workloads",
    ),
    pytest.param(
        "idling.yaml",
        "services: {matchLabels: {tier: web}}",
        "workloads: {kinds: [Deployment]}",
        [
            "policies/idling.yaml:11:5: spec.idleWhen: has a metric criterion, expected only schedules for workloads that are selected without a Service",
        ],
        id="metric for workloads without a Service",
    ),
    pytest.param(
        "idling.yaml",
        "    - schedule:\n        calendar: nights\n",
        "",
        [
            "policies/idling.yaml:11:5: spec.idleWhen: has a metric criterion that idle pods can never turn busy, expected a schedule or wakeWhen beside it, or wake: OnSignal",
        ],
        id="metric that can never wake",
    ),
    pytest.param(
        "idling.yaml",
        "        window: 30m\n",
        "        window: 30m\n        coverage: 'count(up)'\n",
        [
            "policies/idling.yaml:12:9: spec.idleWhen[0].metric.coverageAtLeast: is missing, expected coverage and coverageAtLeast together",
        ],
        id="coverage without its threshold",
    ),
    pytest.param(
        "idling.yaml",
        "        window: 30m\n",
        "        window: 30m\n        coverageAtLeast: 50\n",
        [
            "policies/idling.yaml:12:9: spec.idleWhen[0].metric.coverage: is missing, expected coverage and coverageAtLeast together",
        ],
        id="threshold without coverage",
    ),
    pytest.param(
        "idling.yaml",
        "        query: 'sum by (namespace, service) (increase(requests[{{ window }}]))'\n",
        "",
        [
            "policies/idling.yaml:12:9: spec.idleWhen[0].metric.query: is missing, expected a query",
        ],
        id="query missing",
    ),
    pytest.param(
        "idling.yaml",
        "query: 'sum by (namespace, service) (increase(requests[{{ window }}]))'",
        "query: ''",
        [
            "policies/idling.yaml:12:16: spec.idleWhen[0].metric.query: is empty, expected a query",
        ],
        id="query empty",
    ),
    pytest.param(
        "idling.yaml",
        "{{ window }}",
        "{{ windw }}",
        [
            'policies/idling.yaml:12:16: spec.idleWhen[0].metric.query: uses "windw", expected only "cluster", "policy" or "window", did you mean "window"?',
        ],
        id="query with an unknown variable",
    ),
    pytest.param(
        "idling.yaml",
        "{{ window }}",
        "{{ window",
        [
            'policies/idling.yaml:12:16: spec.idleWhen[0].metric.query: holds "{{ window]))", expected plain text with no more than {{ cluster }}, {{ policy }}, {{ window }} in it',
        ],
        id="query with broken braces",
    ),
    pytest.param(
        "idling.yaml",
        "{{ window }}",
        "{% for i in window %}{{ i }}{% endfor %}",
        [
            'policies/idling.yaml:12:16: spec.idleWhen[0].metric.query: uses "i", expected only "cluster", "policy" or "window"',
        ],
        id="query with a loop",
    ),
    pytest.param(
        "idling.yaml",
        "{{ window }}",
        "{{ window.__class__() }}",
        [
            'policies/idling.yaml:12:16: spec.idleWhen[0].metric.query: holds "{{ window.__class__() }}]))", expected plain text with no more than {{ cluster }}, {{ policy }}, {{ window }} in it',
        ],
        id="query that calls",
    ),
    pytest.param(
        "idling.yaml",
        "atMost: 0",
        "atMost: none",
        [
            'policies/idling.yaml:13:17: spec.idleWhen[0].metric.atMost: is "none", expected a number',
        ],
        id="atMost as text",
    ),
    pytest.param(
        "idling.yaml",
        "window: 30m",
        "window: 0m",
        [
            'policies/idling.yaml:14:17: spec.idleWhen[0].metric.window: is "0m", expected a duration like 90s, 30m, 1h30m or 2d, above zero and at most 999d',
        ],
        id="window of no length",
    ),
    pytest.param(
        "idling.yaml",
        "window: 30m",
        "window: half an hour",
        [
            'policies/idling.yaml:14:17: spec.idleWhen[0].metric.window: is "half an hour", expected a duration like 90s, 30m, 1h30m or 2d, above zero and at most 999d',
        ],
        id="window of a query that is no duration",
    ),
    pytest.param(
        "idling.yaml",
        "        window: 30m\n",
        "        window: 30m\n        noSeries: idle\n",
        [
            'policies/idling.yaml:15:19: spec.idleWhen[0].metric.noSeries: is "idle", expected "Unknown" or "Zero"',
        ],
        id="unknown noSeries",
    ),
    pytest.param(
        "idling.yaml",
        "{matchLabels: {tier: web}}",
        "{matchExpressions: [{key: tier, operator: NotExists}]}",
        [
            'policies/idling.yaml:9:57: spec.selector.services.matchExpressions[0].operator: is "NotExists", expected "In", "NotIn", "Exists" or "DoesNotExist", did you mean "DoesNotExist"?',
        ],
        id="row 22: an operator that is near its opposite",
    ),
    pytest.param(
        "idling.yaml",
        "minAge: 1h",
        "minAge: 800000d",
        [
            'policies/idling.yaml:17:11: spec.minAge: is "800000d", expected a duration like 90s, 30m, 1h30m or 2d, at most 999d',
        ],
        id="H10 minAge without bound",
    ),
    pytest.param(
        "idling.yaml",
        "minAge: 1h",
        "minAge: 999d1h",
        [
            'policies/idling.yaml:17:11: spec.minAge: is "999d1h", expected a duration of at most 999d',
        ],
        id="H10 minAge of too much in all",
    ),
    pytest.param(
        "idling.yaml",
        "window: 30m",
        "window: 800000d",
        [
            'policies/idling.yaml:14:17: spec.idleWhen[0].metric.window: is "800000d", expected a duration like 90s, 30m, 1h30m or 2d, above zero and at most 999d',
        ],
        id="H10 window without bound",
    ),
    pytest.param(
        "idling.yaml",
        "minAge: 1h",
        "minAge: one hour",
        [
            'policies/idling.yaml:17:11: spec.minAge: is "one hour", expected a duration like 90s, 30m, 1h30m or 2d, at most 999d',
        ],
        id="minAge that is no duration",
    ),
    pytest.param(
        "idling.yaml",
        "idleReplicas: 0",
        "idleReplicas: -1",
        [
            'policies/idling.yaml:18:17: spec.idleReplicas: is "-1", expected a whole number of at least 0',
        ],
        id="floor below zero",
    ),
    pytest.param(
        "idling.yaml",
        "idleReplicas: 0",
        "idleReplicas: true",
        [
            'policies/idling.yaml:18:17: spec.idleReplicas: is "true", expected a whole number of at least 0',
        ],
        id="floor as a truth",
    ),
    pytest.param(
        "idling.yaml",
        "{group: shop, tier: 10}",
        "{group: shop, tier: 10, perRun: 0}",
        [
            'policies/idling.yaml:19:46: spec.wakeOrder.perRun: is "0", expected a whole number of at least 1',
        ],
        id="perRun of zero",
    ),
    pytest.param(
        "idling.yaml",
        "{group: shop, tier: 10}",
        "{group: shop, teir: 10}",
        [
            'policies/idling.yaml:19:28: spec.wakeOrder.teir: unknown field, did you mean "tier"?',
        ],
        id="unknown field in wakeOrder",
    ),
    pytest.param(
        "idling.yaml",
        "  minAge: 1h\n",
        "  minAge: 1h\n  wake: onsignal\n",
        [
            'policies/idling.yaml:18:9: spec.wake: is "onsignal", expected "Automatic" or "OnSignal", did you mean "OnSignal"?',
        ],
        id="unknown wake",
    ),
    pytest.param(
        "idling.yaml",
        "  minAge: 1h\n",
        "  minAge: 1h\n  autoscalers: {hpa: ignore}\n",
        [
            'policies/idling.yaml:18:22: spec.autoscalers.hpa: is "ignore", expected "Idle" or "Leave"',
        ],
        id="unknown autoscaler word",
    ),
    pytest.param(
        "idling.yaml",
        "{tier: web}",
        "{tier: 'web front'}",
        [
            'policies/idling.yaml:9:36: spec.selector.services.matchLabels.tier: is "web front", expected a label value of at most 63 letters, digits, -, _ and .',
        ],
        id="label value that Kubernetes refuses",
    ),
    pytest.param(
        "idling.yaml",
        "{tier: web}",
        "{tier: 1}",
        [
            "policies/idling.yaml:9:36: spec.selector.services.matchLabels.tier: is 1 (a number), expected a label value of at most 63 letters, digits, -, _ and .; put it in quotes",
        ],
        id="label value that is a number",
    ),
    pytest.param(
        "idling.yaml",
        "{tier: web}",
        "{tier: true}",
        [
            "policies/idling.yaml:9:36: spec.selector.services.matchLabels.tier: is true (a boolean), expected a label value of at most 63 letters, digits, -, _ and .; put it in quotes",
        ],
        id="label value that is a boolean",
    ),
    pytest.param(
        "idling.yaml",
        "{matchLabels: {tier: web}}",
        "{matchLabels: {tier: web}, matchNames: [web]}",
        ['policies/idling.yaml:9:42: spec.selector.services.matchNames: unknown field, did you mean "include"?'],
        id="names are included",
    ),
    pytest.param(
        "idling.yaml",
        "{tier: web}",
        "{'tier!': web}",
        [
            "policies/idling.yaml:9:30: spec.selector.services.matchLabels.tier!: is no valid key, expected a label key: [prefix/]name of letters, digits, -, _ and .",
        ],
        id="label key that Kubernetes refuses",
    ),
    pytest.param(
        "idling.yaml",
        "{matchLabels: {tier: web}}",
        "{matchExpressions: [{key: tier, operator: Is, values: [web]}]}",
        [
            'policies/idling.yaml:9:57: spec.selector.services.matchExpressions[0].operator: is "Is", expected "In", "NotIn", "Exists" or "DoesNotExist"',
        ],
        id="unknown operator",
    ),
    pytest.param(
        "idling.yaml",
        "{matchLabels: {tier: web}}",
        "{matchExpressions: [{key: tier, operator: In}]}",
        [
            "policies/idling.yaml:9:35: spec.selector.services.matchExpressions[0].values: is missing, expected at least one value for In",
        ],
        id="In without values",
    ),
    pytest.param(
        "idling.yaml",
        "{matchLabels: {tier: web}}",
        "{matchExpressions: [{key: tier, operator: Exists, values: [web]}]}",
        [
            "policies/idling.yaml:9:73: spec.selector.services.matchExpressions[0].values: has values, expected none for Exists",
        ],
        id="Exists with values",
    ),
    pytest.param(
        "idling.yaml",
        "spec:\n  mode: Enforce\n",
        "spec: []\nother:\n  mode: Enforce\n",
        [
            "policies/idling.yaml:4:7: spec: is an empty list, expected a mapping",
            "policies/idling.yaml:5:1: other: unknown field",
        ],
        id="spec as a list",
    ),
    pytest.param(
        "idling.yaml",
        "  idleReplicas: 0\n",
        "  idleReplicas: 0\n  idleReplicas: 1\n",
        [
            'policies/idling.yaml:19:3: "idleReplicas" is given twice, expected once',
        ],
        id="a key given twice",
    ),
    pytest.param(
        "idling.yaml",
        "  idleReplicas: 0\n",
        "\tfloor: 0\n",
        [
            "policies/idling.yaml:18:1: is no YAML: found a tab character that violates indentation",
        ],
        id="a tab for indentation",
    ),
    pytest.param(
        "idling.yaml",
        'include: ["dev-*"]',
        'include: ["dev-*"',
        [
            "policies/idling.yaml:8:35: is no YAML: did not find expected ',' or ']'",
        ],
        id="an unclosed list",
    ),
    pytest.param(
        "idling.yaml",
        "idleReplicas: 0",
        "idleReplicas: *zero",
        [
            'policies/idling.yaml:18:17: "*zero" names no anchor that ends before it, expected one',
        ],
        id="an alias without anchor",
    ),
    pytest.param(
        "idling.yaml",
        "idleReplicas: 0",
        "idleReplicas: !python/object 0",
        [
            'policies/idling.yaml:18:17: has the tag "!python/object", expected none',
        ],
        id="a tag",
    ),
    pytest.param(
        "calendar.yaml",
        "Europe/Paris",
        "Europe/Pariss",
        [
            'policies/calendar.yaml:5:13: spec.timeZone: is "Europe/Pariss", expected a time zone like Europe/Paris, did you mean "Europe/Paris"?',
        ],
        id="unknown time zone",
    ),
    pytest.param(
        "calendar.yaml",
        '"Mon-Thu 20:00-07:00"',
        '"Mon-Thu 20:00-25:00"',
        [
            'policies/calendar.yaml:6:14: spec.downtime[0]: is "Mon-Thu 20:00-25:00", expected a window like "Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00" or "2026-12-24T18:00/2027-01-02T08:00"',
        ],
        id="window with an hour that does not exist",
    ),
    pytest.param(
        "calendar.yaml",
        '"Mon-Thu 20:00-07:00"',
        '"Mon-Thr 20:00-07:00"',
        [
            'policies/calendar.yaml:6:14: spec.downtime[0]: is "Mon-Thr 20:00-07:00", expected a window like "Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00" or "2026-12-24T18:00/2027-01-02T08:00"',
        ],
        id="window with an unknown day",
    ),
    pytest.param(
        "calendar.yaml",
        '"Mon-Thu 20:00-07:00"',
        "2000",
        [
            'policies/calendar.yaml:6:14: spec.downtime[0]: is "2000", expected a window like "Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00" or "2026-12-24T18:00/2027-01-02T08:00"',
        ],
        id="window that is a number",
    ),
    pytest.param(
        "calendar.yaml",
        'downtime: ["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"]',
        "downtime: []",
        [
            "policies/calendar.yaml:6:13: spec.downtime: is an empty list, expected a list with at least 1 entry",
        ],
        id="no windows",
    ),
    pytest.param(
        "calendar.yaml",
        'to: "2026-12-04T00:00"',
        'to: "2026-12-01T00:00"',
        [
            'policies/calendar.yaml:7:47: spec.exceptions[0].to: is "2026-12-01T00:00", expected a time after "2026-12-01T00:00"',
        ],
        id="exception that ends before it starts",
    ),
    pytest.param(
        "fleet.yaml",
        'prometheus: {url: "https://prometheus.us.example:9090"}',
        'prometheus: {url: "https://prometheus.us.example:9090", basicAuth: {username: run, passwordFile: p}, bearerTokenFile: t}',
        [
            "policies/fleet.yaml:11:74: spec.clusters[1].prometheus.basicAuth: stands beside bearerTokenFile, expected one of the two"
        ],
        id="prometheus: a token beside a password",
    ),
    pytest.param(
        "fleet.yaml",
        'prometheus: {url: "https://prometheus.us.example:9090"}',
        'prometheus: {url: "http://prometheus.us.example:9090", basicAuth: {username: run, passwordFile: p}}',
        [
            'policies/fleet.yaml:11:25: spec.clusters[1].prometheus.url: is "http://prometheus.us.example:9090" with a token or password, expected "https://"; or say allowInsecureAuth: true'
        ],
        id="prometheus: a password over plain http",
    ),
    pytest.param(
        "fleet.yaml",
        'prometheus: {url: "https://prometheus.us.example:9090"}',
        'prometheus: {url: "https://prometheus.us.example:9090", keyFile: k}',
        [
            "policies/fleet.yaml:11:72: spec.clusters[1].prometheus.keyFile: stands without certFile, expected the certificate of this key"
        ],
        id="prometheus: a key without its certificate",
    ),
    pytest.param(
        "fleet.yaml",
        'prometheus: {url: "https://prometheus.us.example:9090"}',
        'prometheus: {url: "https://prometheus.us.example:9090", headers: {Authorization: Basic}}',
        [
            'policies/fleet.yaml:11:88: spec.clusters[1].prometheus.headers.Authorization: is "Authorization", expected a header that is not ours to set'
        ],
        id="prometheus: a header that is ours",
    ),
    pytest.param(
        "fleet.yaml",
        'prometheus: {url: "https://prometheus.us.example:9090"}',
        'prometheus: {url: "https://prometheus.us.example:9090", proxyUrl: "ftp://proxy"}',
        [
            'policies/fleet.yaml:11:73: spec.clusters[1].prometheus.proxyUrl: is "ftp://proxy", expected an http, https or socks5 URL without a path'
        ],
        id="prometheus: a proxy of another kind",
    ),
    pytest.param(
        "fleet.yaml",
        "home: eu-west",
        "home: eu-wets",
        [
            'policies/fleet.yaml:5:9: spec.home: is "eu-wets", expected the name of one of the clusters, did you mean "eu-west"?',
        ],
        id="home that is no cluster",
    ),
    pytest.param(
        "fleet.yaml",
        "  home: eu-west\n",
        "",
        [
            "policies/fleet.yaml:5:3: spec.home: is missing, expected a text",
        ],
        id="home missing",
    ),
    pytest.param(
        "fleet.yaml",
        '  clusters:\n    - name: eu-west\n      labels: {region: eu}\n    - name: us-east\n      labels: {region: us}\n      prometheus: {url: "https://prometheus.us.example:9090"}\n',
        "  clusters: []\n",
        [
            "policies/fleet.yaml:6:13: spec.clusters: is an empty list, expected a list with at least 1 entry",
        ],
        id="no clusters",
    ),
    pytest.param(
        "fleet.yaml",
        "- name: us-east",
        "- name: eu-west",
        [
            "policies/federated.yaml:10:7: spec.preferences.clusters.us-east: unknown cluster, expected a cluster of the Fleet",
            'policies/fleet.yaml:9:13: spec.clusters[1].name: is "eu-west" a second time, expected each name once',
        ],
        id="a cluster twice",
    ),
    pytest.param(
        "fleet.yaml",
        "      labels: {region: eu}\n",
        "      labels: {region: eu}\n      state: frozzen\n",
        [
            'policies/fleet.yaml:9:14: spec.clusters[0].state: is "frozzen", expected "Active", "Frozen", "ReadOnly", "Draining" or "Leaving", did you mean "Frozen"?',
        ],
        id="unknown state",
    ),
    pytest.param(
        "fleet.yaml",
        "share: 25%",
        "share: 25",
        [
            'policies/fleet.yaml:13:29: spec.limits.idledWorkloads.share: is "25", expected a share from "0%" to "100%"',
        ],
        id="share without a percent sign",
    ),
    pytest.param(
        "fleet.yaml",
        "share: 25%",
        "share: 125%",
        [
            'policies/fleet.yaml:13:29: spec.limits.idledWorkloads.share: is "125%", expected a share from "0%" to "100%"',
        ],
        id="share above all",
    ),
    pytest.param(
        "fleet.yaml",
        "https://prometheus.us.example:9090",
        "prometheus.us.example:9090",
        [
            'policies/fleet.yaml:11:25: spec.clusters[1].prometheus.url: is "prometheus.us.example:9090", expected an http or https URL without user, password, query or fragment',
        ],
        id="Prometheus without http",
    ),
    pytest.param(
        "fleet.yaml",
        "      labels: {region: eu}\n",
        "      labels: {region: eu}\n      connection: {inCluster: true, context: eu}\n",
        [
            "policies/fleet.yaml:9:19: spec.clusters[0].connection: has inCluster beside kubeconfig or context, expected one way to connect",
        ],
        id="inCluster beside a context",
    ),
    pytest.param(
        "fleet.yaml",
        "  limits:\n",
        "  limit:\n",
        [
            'policies/fleet.yaml:12:3: spec.limit: unknown field, did you mean "limits"?',
        ],
        id="unknown field of the Fleet",
    ),
    pytest.param(
        "replicaset.yaml",
        '{"rebalance": true,',
        "{rebalance: true,",
        [
            "policies/replicaset.yaml:7:55: metadata.annotations.federation.kubernetes.io/replica-set-preferences: is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ],
        id="annotation that is no JSON",
    ),
    pytest.param(
        "replicaset.yaml",
        '"rebalance": true',
        '"rebalanc": true',
        [
            'policies/replicaset.yaml:7:55: metadata.annotations.federation.kubernetes.io/replica-set-preferences: rebalanc: unknown field, did you mean "rebalance"?',
        ],
        id="annotation with an unknown field",
    ),
    pytest.param(
        "replicaset.yaml",
        '{"Weight": 2}',
        '{"Weight": -2}',
        [
            'policies/replicaset.yaml:7:55: metadata.annotations.federation.kubernetes.io/replica-set-preferences: clusters.eu-west.weight: is "-2", expected a whole number of at least 0',
        ],
        id="annotation with a weight below zero",
    ),
    pytest.param(
        "replicaset.yaml",
        '"eu-west": {',
        '"eu-wst": {',
        [
            'policies/replicaset.yaml:7:55: metadata.annotations.federation.kubernetes.io/replica-set-preferences: clusters.eu-wst: unknown cluster, expected a cluster of the Fleet, did you mean "eu-west"?',
        ],
        id="annotation with an unknown cluster",
    ),
    pytest.param(
        "replicaset.yaml",
        '"rebalance": true',
        '"rebalance": true, "rebalance": false',
        [
            'policies/replicaset.yaml:7:55: metadata.annotations.federation.kubernetes.io/replica-set-preferences: is no JSON: "rebalance" is given twice, expected once',
        ],
        id="annotation with a field twice",
    ),
    pytest.param(
        "replicaset.yaml",
        "apps/v1",
        "extensions/v1beta1",
        [
            'policies/replicaset.yaml:1:13: apiVersion: is "extensions/v1beta1", expected "apps/v1"',
        ],
        id="ReplicaSet of an old version",
    ),
    pytest.param(
        "downscale.yaml",
        "    min: 2\n",
        "    min: 2\n    replicas: 4\n",
        [
            "policies/downscale.yaml:9:5: spec.target: has query and replicas, expected exactly one of the two",
        ],
        id="query beside replicas",
    ),
    pytest.param(
        "downscale.yaml",
        "    query: 'ceil(sum(airflow_running_tasks) / 8)'\n",
        "",
        [
            "policies/downscale.yaml:9:5: spec.target: has neither query nor replicas, expected exactly one of the two",
        ],
        id="neither query nor replicas",
    ),
    pytest.param(
        "downscale.yaml",
        "max: 40",
        "max: 1",
        [
            'policies/downscale.yaml:11:10: spec.target.max: is "1", expected at least min, which is "2"',
        ],
        id="max below min",
    ),
    pytest.param(
        "downscale.yaml",
        "    min: 2\n",
        "    min: 2\n    direction: up\n",
        [
            'policies/downscale.yaml:11:16: spec.target.direction: is "up", expected "Down" or "Both"',
        ],
        id="unknown direction",
    ),
    pytest.param(
        "downscale.yaml",
        "  podPicker:\n",
        "  strategy: zoneBalance\n  podPicker:\n",
        [
            'policies/downscale.yaml:12:13: spec.strategy: is "zoneBalance", expected "Logarithmic", "NewestFirst" or "ZoneBalanced", did you mean "ZoneBalanced"?',
        ],
        id="unknown strategy",
    ),
    pytest.param(
        "downscale.yaml",
        "kinds: [Deployment]",
        "kinds: [StatefulSet]",
        [
            'policies/downscale.yaml:7:25: spec.selector.workloads.kinds[0]: is "StatefulSet" with podPicker, expected a kind whose victims can be chosen, like Deployment',
        ],
        id="a picker for a StatefulSet",
    ),
    pytest.param(
        "downscale.yaml",
        "picker.airflow.svc",
        "picker.example.org",
        [
            'policies/downscale.yaml:14:13: spec.podPicker.http.host: is "picker.example.org", expected a host that the Fleet\'s podPickers.allowedHosts has: "*.svc.cluster.local" or "*.svc"',
        ],
        id="a picker's host that the Fleet does not allow",
    ),
    pytest.param(
        "downscale.yaml",
        "picker.airflow.svc",
        "169.254.169.254",
        [
            'policies/downscale.yaml:14:13: spec.podPicker.http.host: is "169.254.169.254", expected a host that the Fleet\'s podPickers.allowedHosts has: "*.svc.cluster.local" or "*.svc"',
            'policies/downscale.yaml:14:13: spec.podPicker.http.host: is "169.254.169.254", expected no link-local or metadata address',
        ],
        id="a picker at a metadata address",
    ),
    pytest.param(
        "downscale.yaml",
        "path: /downscale-pod-picker",
        "path: downscale-pod-picker",
        [
            'policies/downscale.yaml:15:13: spec.podPicker.http.path: is "downscale-pod-picker", expected a path that starts with "/"',
        ],
        id="a picker's path without a slash",
    ),
    pytest.param(
        "downscale.yaml",
        "      path: /downscale-pod-picker\n",
        "      path: /downscale-pod-picker\n      scheme: http\n",
        [
            'policies/downscale.yaml:16:15: spec.podPicker.http.scheme: is "http" with a secret header, expected "https"; or say allowInsecureAuth: true',
        ],
        id="a secret over http",
    ),
    pytest.param(
        "downscale.yaml",
        "name: authentication",
        "name: Host",
        [
            'policies/downscale.yaml:17:17: spec.podPicker.http.httpHeaders[0].name: is "Host", expected a header that is not ours to set',
        ],
        id="a reserved header",
    ),
    pytest.param(
        "downscale.yaml",
        "name: authentication",
        "name: my header",
        [
            'policies/downscale.yaml:17:17: spec.podPicker.http.httpHeaders[0].name: is "my header", expected a header name',
        ],
        id="a header name with a space",
    ),
    pytest.param(
        "downscale.yaml",
        "        - name: authentication\n",
        "        - name: authentication\n          value: secret\n",
        [
            "policies/downscale.yaml:17:11: spec.podPicker.http.httpHeaders[0]: has value and valueFrom, expected exactly one of the two",
        ],
        id="a header with value and valueFrom",
    ),
    pytest.param(
        "downscale.yaml",
        "      path: /downscale-pod-picker\n",
        "      path: /downscale-pod-picker\n      port: 70000\n",
        [
            'policies/downscale.yaml:16:13: spec.podPicker.http.port: is "70000", expected a whole number from 1 to 65535',
        ],
        id="a port out of range",
    ),
    pytest.param(
        "downscale.yaml",
        "maxRetries: 3",
        "timeoutSeconds: 0",
        [
            'policies/downscale.yaml:19:21: spec.podPicker.timeoutSeconds: is "0", expected a number above 0 and at most 30',
        ],
        id="a timeout of zero",
    ),
    pytest.param(
        "downscale.yaml",
        "      path: /downscale-pod-picker\n",
        "      path: /downscale-pod-picker\n      caBundle: abc\n",
        [
            "policies/downscale.yaml:16:17: spec.podPicker.http.caBundle: is no PEM certificate, expected -----BEGIN CERTIFICATE-----",
        ],
        id="a CA bundle that is none",
    ),
    pytest.param(
        "downscale.yaml",
        "    workloads: {kinds: [Deployment], matchLabels: {app: worker}}\n",
        "",
        [
            "policies/downscale.yaml:6:5: spec.selector.workloads: is missing, expected a mapping",
        ],
        id="no workloads in a downscale policy",
    ),
]


@pytest.mark.parametrize(("file", "old", "new", "expected"), CASES)
def test_a_wrong_policy_is_told_with_its_place(tmp_path, file, old, new, expected):
    assert problems_in(tmp_path, edited(file, old, new)) == expected


def test_the_set_that_the_cases_break_is_valid(tmp_path):
    assert problems_in(tmp_path, FILES) == []
