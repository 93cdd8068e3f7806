# The front door: the workflow is workflow/Snakefile. An included file cannot set the default target, so this one does.
include: "workflow/Snakefile"


rule default:
    default_target: True
    input:
        rules.all.input,
    message:
        "All that config/config.yaml asks for is made"
