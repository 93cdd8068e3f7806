# Seconds of a round, for tables of wall-clock times. A run of its own that has the machine to itself: it takes all cores, so
# that no other job runs beside it. Where jobs go to other hosts, `--set-threads timing=N` says how many cores it asks for.
def all_cores(wildcards):
    return workflow.cores or 1


@told
def timed_run(wildcards):
    """The first seed's run: the seconds of a round do not depend on the seed."""
    ids = (wildcards.scale, wildcards.protocol)
    return EXPERIMENT.run(*ids, wildcards.split, wildcards.algorithm, EXPERIMENT.seeds(*ids)[0])


def timed_manifest(wildcards):
    return f"{RESOURCES}/{timed_run(wildcards).dataset}/dataset.json"


def timed_arrays(wildcards):
    return [f"{RESOURCES}/{timed_run(wildcards).dataset}/{array}.npy" for array in ("images", "labels")]


def timed_partition(wildcards):
    return timed_run(wildcards).partition


def timed_description(wildcards):
    return as_json(timed_run(wildcards).description)


def timed_code(wildcards):
    return provenance.run_digest(timed_run(wildcards).description)


rule timing:
    input:
        manifest=timed_manifest,
        arrays=ancient(timed_arrays),
        partition=timed_partition,
    output:
        "<results>/{scale}/analysis/{protocol}/{split}/{algorithm}/timing.json",
    log:
        "<logs>/{scale}/timing/{protocol}/{split}/{algorithm}.log",
    benchmark:
        "<benchmarks>/{scale}/timing/{protocol}/{split}/{algorithm}.tsv"
    conda:
        "../../environment.yml"
    threads: all_cores
    resources:
        gpu=1 if DEVICE == "cuda" else 0,
        device=DEVICE,
    params:
        run=timed_description,
        dataset=subpath(input.manifest, parent=True),
        threads=run_threads,
        code=timed_code,
    message:
        "Seconds of a round of {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}, alone"
    shell:
        "python -m flatfed time --run {params.run:q} --dataset {params.dataset} --partition {input.partition}"
        " --out {output} --device {resources.device} --threads {params.threads} > {log} 2>&1"
