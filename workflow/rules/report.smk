# Through a file: with every table, the specification is longer than a shell takes.
rule report_spec:
    output:
        "<results>/{scale}/report.json",
    log:
        "<logs>/{scale}/report_spec.log",
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        configuration=as_json(config),
        results=subpath(output[0], ancestor=2),
        resources=PLACES.resources,
        spec=report_digest,
    message:
        "What the report of the {wildcards.scale} scale holds"
    shell:
        "python -m flatfed specify --configuration {params.configuration:q} --scale {wildcards.scale:q}"
        " --results {params.results:q} --resources {params.resources:q} --out {output:q} > {log:q} 2>&1"


rule report:
    input:
        report_inputs,
        errata="<results>/errata.html",
        spec="<results>/{scale}/report.json",
    output:
        report(
            "<results>/{scale}/report.html",
            category="Report",
            labels={"page": "All on one page", "scale": "{scale}"},
        ),
    log:
        "<logs>/{scale}/report.log",
    benchmark:
        "<benchmarks>/{scale}/report.tsv"
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        code=CODE,
    message:
        "Report of the {wildcards.scale} scale"
    shell:
        "python -m flatfed report --spec {input.spec:q} --out {output:q} > {log:q} 2>&1"


# Of no scale: it is about what the papers printed.
rule errata:
    output:
        report("<results>/errata.html", category="Errata", labels={"page": "Errata of the four papers"}),
    log:
        "<logs>/errata.log",
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        content=errata_digest,
        code=CODE,
    message:
        "Where the papers contradict themselves"
    shell:
        "python -m flatfed errata --out {output:q} > {log:q} 2>&1"
