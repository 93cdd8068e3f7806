rule report:
    input:
        report_job.inputs,
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
        "<results>/benchmarks/{scale}/report.tsv"
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        digest=report_job.digest,
        seal=report_job.seal,
    message:
        "Report of the {wildcards.scale} scale"
    shell:
        "python -m flatfed report --scale {wildcards.scale:q} --out {output:q} --digest {params.digest:q}"
        " --seal {params.seal:q} > {log:q} 2>&1"


# Without a scale: the page is about printed numbers.
rule errata:
    input:
        errata_job.inputs,
    output:
        report("<results>/errata.html", category="Errata", labels={"page": "Errata of the four papers"}),
    log:
        "<logs>/errata.log",
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        seal=errata_job.seal,
    message:
        "Errata of the papers"
    shell:
        "python -m flatfed errata --out {output:q} --seal {params.seal:q} > {log:q} 2>&1"
