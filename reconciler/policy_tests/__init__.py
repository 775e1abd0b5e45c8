"""Tests of policies: cases are run on clusters in memory, and compared with what they expect."""
