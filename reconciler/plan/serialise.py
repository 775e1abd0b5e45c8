"""A plan as JSON values, and back."""
