"""Conformance of a policy: what must hold of any, tried out in child processes; and the certificate of one that passed."""
