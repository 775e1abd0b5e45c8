"""Placement: how many replicas of a federated ReplicaSet each cluster has, and the steps that bring them there."""
