"""The picker: an admission webhook that chooses the pods of decreases that others ask for."""
