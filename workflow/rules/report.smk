rule report:
    input:
        report_inputs,
    output:
        "<results>/{scale}/report.html",
    log:
        "<logs>/{scale}/report.log",
    benchmark:
        "<benchmarks>/{scale}/report.tsv"
    conda:
        "../../environment.yml"
    params:
        spec=report_spec,
        code=code("flatfed.tables.report"),
    message:
        "Report of the {wildcards.scale} scale"
    shell:
        "python -m flatfed report --spec {params.spec:q} --out {output} > {log} 2>&1"
