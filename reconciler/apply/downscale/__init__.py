"""One workload is scaled down so that exactly the chosen pods go."""
