"""What runs of the coming days do."""
