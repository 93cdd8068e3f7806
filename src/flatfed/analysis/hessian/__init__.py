"""How sharp the loss is at a run's model: eigenvalues and trace of its Hessian."""
