"""How sharp the loss is at a run's model: eigenvalues and trace of its Hessian."""

#: Increased when the numbers of a hessian.json change.
VERSION = 1
