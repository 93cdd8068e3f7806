rule report:
    input:
        of("inputs", "report"),
    output:
        report(
            "<results>/{scale}/report.html",
            category="Report",
            labels={"page": "All on one page", "scale": "{scale}"},
        ),
    log:
        "<logs>/{scale}/report.log",
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        digest=of("digest", "report"),
        code=CODE,
    message:
        "Report of the {wildcards.scale} scale"
    shell:
        "PYTHONPATH=$FLATFED_PATH python -P -m flatfed report --scale {wildcards.scale:q} --out {output:q} > {log:q} 2>&1"
