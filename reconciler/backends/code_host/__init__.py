"""The comment of a review on GitHub and GitLab."""
