"""How flat a minimum is: what is measured at the model of a finished run, or between the models of two."""
