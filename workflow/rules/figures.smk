rule figure:
    input:
        of("inputs", "figure"),
    output:
        png=report(
            "<results>/{scale}/figures/{figure}.png",
            caption="../report/figure.rst",
            category="Figures",
            labels={"figure": "{figure}", "scale": "{scale}"},
        ),
        pdf="<results>/{scale}/figures/{figure}.pdf",
        notes="<results>/{scale}/figures/{figure}.txt",
    log:
        "<logs>/{scale}/figure/{figure}.log",
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        digest=of("digest", "figure"),
        code=CODE,
        caption=of("caption"),
        folder=subpath(output.png, parent=True),
    message:
        "Figure {wildcards.figure} at {wildcards.scale} scale"
    shell:
        "PYTHONPATH=$FLATFED_PATH python -P -m flatfed figure {wildcards.figure:q} --scale {wildcards.scale:q}"
        " --out {params.folder:q} > {log:q} 2>&1"
