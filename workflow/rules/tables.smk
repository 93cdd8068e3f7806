rule table:
    input:
        of("inputs", "table"),
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
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        digest=of("digest", "table"),
        code=CODE,
        folder=subpath(output.csv, parent=True),
        printed=of("printed"),
    message:
        "Table {wildcards.table} at {wildcards.scale} scale"
    shell:
        "PYTHONPATH=$FLATFED_PATH python -P -m flatfed table {wildcards.table:q} --scale {wildcards.scale:q}"
        " --out {params.folder:q} > {log:q} 2>&1"


# One cell by name, with the code of tables.
rule cell:
    input:
        of("inputs", "cell"),
    output:
        "<results>/{scale}/cells/{table}/{column}/{row}.json",
    log:
        "<logs>/{scale}/cell/{table}/{column}/{row}.log",
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        digest=of("digest", "cell"),
        code=CODE,
    message:
        "Cell {wildcards.row}, {wildcards.column} of {wildcards.table}"
    shell:
        "PYTHONPATH=$FLATFED_PATH python -P -m flatfed cell {wildcards.table:q} {wildcards.column:q} {wildcards.row:q}"
        " --scale {wildcards.scale:q} --out {output:q} > {log:q} 2>&1"
