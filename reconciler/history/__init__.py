"""Who scaled what, when and why: what clusters and folders keep of the runs that changed something."""
