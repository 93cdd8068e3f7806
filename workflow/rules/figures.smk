rule figure:
    input:
        figure_job.inputs,
    output:
        png=report(
            update("<results>/{scale}/figures/{figure}.png"),
            caption="../report/figure.rst",
            category="Figures",
            labels={"figure": "{figure}", "scale": "{scale}"},
        ),
        pdf=update("<results>/{scale}/figures/{figure}.pdf"),
        notes=update("<results>/{scale}/figures/{figure}.txt"),
    log:
        "<logs>/{scale}/figure/{figure}.log",
    benchmark:
        "<results>/benchmarks/{scale}/figure/{figure}.tsv"
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        digest=figure_job.digest,
        caption=figure_caption,
        folder=subpath(output.png, parent=True),
        seal=figure_job.seal,
    message:
        "Figure {wildcards.figure} at {wildcards.scale} scale"
    shell:
        "python -m flatfed figure {wildcards.figure:q} --scale {wildcards.scale:q} --out {params.folder:q}"
        " --digest {params.digest:q} --seal {params.seal:q} > {log:q} 2>&1"
