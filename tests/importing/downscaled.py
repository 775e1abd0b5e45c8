"""Namespaces and workloads with annotations of kube-downscaler, and its controller."""

from __future__ import annotations

UP = "Mon-Fri 07:30-20:30 Europe/Berlin"
SPACE = """
apiVersion: v1
kind: Namespace
metadata: {{name: {name}, annotations: {{{annotations}}}}}
---
"""
WEB = """
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}, namespace: dev, annotations: {{{annotations}}}}}
spec: {{replicas: 2}}
---
"""
CONTROLLER = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: downscaler, namespace: kube-downscaler}}
spec:
  template:
    spec:
      containers:
        - {{name: proxy, image: "example.com/proxy:1"}}
        - name: downscaler
          image: "{image}"
          args: [{args}]
          env: [{{name: DEFAULT_TIMEZONE, value: Europe/Rome}}, {{name: NODE, valueFrom: {{fieldRef: {{}}}}}}]
          envFrom: [{{configMapRef: {{name: settings}}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings, namespace: kube-downscaler}}
data: {{EXCLUDE_NAMESPACES: "kube-.*,monitoring"}}
---
"""


def space(name: str = "dev", **annotations: str) -> str:
    return SPACE.format(name=name, annotations=_written(annotations))


def web(name: str = "web", kind: str = "Deployment", **annotations: str) -> str:
    return WEB.format(name=name, kind=kind, annotations=_written(annotations))


def controller(*args: str, image: str = "ghcr.io/caas-team/py-kube-downscaler:26.4.0") -> str:
    return CONTROLLER.format(image=image, args=", ".join(f'"{one}"' for one in args))


def _written(annotations: dict[str, str]) -> str:
    return ", ".join(f'downscaler/{key.replace("_", "-")}: "{value}"' for key, value in annotations.items())
