"""The one HTTP client: of API servers, Prometheus, pod pickers and the push gateway."""
