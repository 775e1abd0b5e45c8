"""How replicas that are left are spread by weight: the order of clusters, and the two ways to round."""
