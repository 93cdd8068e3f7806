# A cell whose runs turn out not to be those that it asks for stays as it was (update), and the message says what they are.
rule cell:
    input:
        cell_inputs,
    output:
        update("<results>/{scale}/cells/{table}/{column}/{row}.json"),
    log:
        "<logs>/{scale}/cell/{table}/{column}/{row}.log",
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        spec=cell_spec,
        code=cell_code,
    message:
        "Cell {wildcards.row}, {wildcards.column} of {wildcards.table}"
    shell:
        "python -m flatfed cell --spec {params.spec:q} --out {output:q} > {log:q} 2>&1"


rule table:
    input:
        table_cells,
    output:
        csv="<results>/{scale}/tables/{table}.csv",
        md="<results>/{scale}/tables/{table}.md",
        tex="<results>/{scale}/tables/{table}.tex",
        html=report(
            "<results>/{scale}/tables/{table}.html",
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{table}", "scale": "{scale}"},
        ),
    log:
        "<logs>/{scale}/table/{table}.log",
    benchmark:
        "<benchmarks>/{scale}/table/{table}.tsv"
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        spec=table_spec,
        folder=subpath(output.csv, parent=True),
        code=CODE,
    message:
        "Table {wildcards.table} at {wildcards.scale} scale"
    shell:
        "python -m flatfed table --spec {params.spec:q} --out-dir {params.folder:q} > {log:q} 2>&1"
