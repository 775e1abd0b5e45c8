"""The smallest changes that would alter what is done, where more than one place names them."""

ANOTHER_STATE = "another state of the cluster"
ASKED = "a wake request"
UNCONTESTED = "taking reconciler/contested off, or a change of its policy"
UNPROTECTED = "taking the namespace off protectedNamespaces of the Fleet"
