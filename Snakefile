# Entry point; workflow/Snakefile sets the default target.
include: "workflow/Snakefile"
