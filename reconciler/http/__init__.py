"""The one HTTP client, within time limits: of API servers, Prometheus, pod pickers, webhooks and code hosts."""
