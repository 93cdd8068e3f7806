# Entry point. It sets the default target, which the included workflow/Snakefile cannot.
include: "workflow/Snakefile"


rule default:
    default_target: True
    input:
        rules.all.input,
    message:
        "The outputs that config/config.yaml requests are complete"
