"""How a server is reached, and as whom: from what a Fleet says (`connection_settings.py`) to a connection that is kept.

`allowed_sources.py` says which files and programs a Fleet may use. `kubeconfig.py` reads a kubeconfig, in the parts of
`config_node.py`, or the Pod's ServiceAccount, to a `ServerAccess`; tokens come from `exec_plugin.py` and
`auth_provider.py` where it names these. `connection.py` keeps the endpoint and the token, and renews what was refused.
What is sent as a credential is taken out of all that people read (`reconciler/redaction.py`).
"""
