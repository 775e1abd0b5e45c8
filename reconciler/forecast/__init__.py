"""What the runs of the coming days do, simulated on a copy of a snapshot in memory."""
