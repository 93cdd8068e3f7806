rule report:
    input:
        report_inputs,
        errata="<results>/errata.html",
    output:
        report(
            update("<results>/{scale}/report.html"),
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
        digest=report_digest,
        code=CODE,
    message:
        "Report of the {wildcards.scale} scale"
    shell:
        "python -m flatfed report --scale {wildcards.scale:q} --out {output:q} --digest {params.digest:q} > {log:q} 2>&1"


# Without a scale: the page is about printed numbers.
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
        "Errata of the papers"
    shell:
        "python -m flatfed errata --out {output:q} > {log:q} 2>&1"
