"""One question's work: everything that a method does goes through a Run."""
# CONTRACT STUB: the run room fills this in.
