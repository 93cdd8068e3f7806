# Train once per grid point, without the validation images, which score it. Nothing reads the models, so they are temporary.
use rule train as tuning_run with:
    output:
        metrics="<results>/{scale}/tuning/{protocol}/{split}/{algorithm}/{point}/metrics.csv",
        model=temp("<results>/{scale}/tuning/{protocol}/{split}/{algorithm}/{point}/model.safetensors"),
        run="<results>/{scale}/tuning/{protocol}/{split}/{algorithm}/{point}/run.json",
    log:
        "<logs>/{scale}/tuning/{protocol}/{split}/{algorithm}/{point}.log",
    benchmark:
        "<results>/benchmarks/{scale}/tuning/{protocol}/{split}/{algorithm}/{point}.tsv"
    message:
        "Train tuning point {wildcards.point} of {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}, {resources.device}"


# The old choice stays until the new one is complete (update): tables of the same call read it.
rule choose:
    input:
        choice_inputs,
    output:
        update("<results>/{scale}/tuning/{protocol}/{split}/{algorithm}/choice.json"),
    log:
        "<logs>/{scale}/tuning/{protocol}/{split}/{algorithm}.log",
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        digest=choice_digest,
        code=CODE,
    message:
        "Choose the hyper-parameters of {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}"
    shell:
        "python -m flatfed choose {wildcards.protocol:q} {wildcards.split:q} {wildcards.algorithm:q} --scale {wildcards.scale:q}"
        " --out {output:q} --digest {params.digest:q} > {log:q} 2>&1; tail -n 1 {log:q}"


rule tuning:
    input:
        tuning_choices,
    localrule: True
    message:
        "The tuning choices for config/config.yaml are complete"


rule tuning_everything:
    input:
        every_tuning_choice,
    localrule: True
    message:
        "The tuning choices for all tables and figures are complete"
