"""What runs of the coming days do, played on a copy of a snapshot in memory."""
