# Entry point. Its first rule is the default target, which the included workflow/Snakefile cannot set.
include: "workflow/Snakefile"


rule default:
    input:
        rules.all.input,
    message:
        "The outputs that config/config.yaml requests are complete"
