"""Plan and outcomes -> text, JSON, Markdown, HTML."""
