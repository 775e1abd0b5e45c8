"""Policy files -> validated policies."""
