# If a table refuses a run, the old files stay (update).
rule table:
    input:
        table_job.inputs,
    output:
        csv=update("<results>/{scale}/tables/{table}.csv"),
        md=update("<results>/{scale}/tables/{table}.md"),
        tex=update("<results>/{scale}/tables/{table}.tex"),
        html=report(
            update("<results>/{scale}/tables/{table}.html"),
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{table}", "scale": "{scale}"},
        ),
    log:
        "<logs>/{scale}/table/{table}.log",
    benchmark:
        "<results>/benchmarks/{scale}/table/{table}.tsv"
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        digest=table_job.digest,
        folder=subpath(output.csv, parent=True),
        printed=table_printed,
        seal=table_job.seal,
    message:
        "Table {wildcards.table} at {wildcards.scale} scale"
    shell:
        "python -m flatfed table {wildcards.table:q} --scale {wildcards.scale:q}"
        " --out {params.folder:q} --digest {params.digest:q} --seal {params.seal:q} > {log:q} 2>&1"


# One cell by name, with the code of tables. If it refuses a run, the old file stays (update).
rule cell:
    input:
        cell_job.inputs,
    output:
        update("<results>/{scale}/cells/{table}/{column}/{row}.json"),
    log:
        "<logs>/{scale}/cell/{table}/{column}/{row}.log",
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        digest=cell_job.digest,
        seal=cell_job.seal,
    message:
        "Cell {wildcards.row}, {wildcards.column} of {wildcards.table}"
    shell:
        "python -m flatfed cell {wildcards.table:q} {wildcards.column:q} {wildcards.row:q} --scale {wildcards.scale:q}"
        " --out {output:q} --digest {params.digest:q} --seal {params.seal:q} > {log:q} 2>&1"
