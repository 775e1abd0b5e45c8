"""Tests of what people read: every page is run."""
