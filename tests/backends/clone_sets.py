"""CloneSets and their CustomResourceDefinition, as manifests."""

from __future__ import annotations

CLONE_SETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clonesets.apps.kruise.io}
spec:
  group: apps.kruise.io
  scope: Namespaced
  names: {kind: CloneSet, plural: clonesets}
  versions:
  - name: v1beta1
    served: true
    storage: false
    subresources: {scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.count}}
  - name: v1alpha1
    served: true
    storage: true
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
"""


CLONE_SET = """
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web, generation: 3}
spec: {replicas: 4, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
"""
