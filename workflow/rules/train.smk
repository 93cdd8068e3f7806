# A failed or killed training leaves checkpoint files beside the outputs. They are not declared, so that Snakemake keeps them:
# a retry, or the next call, goes on from the last one. `update`: a run that is made again, since its code or parameters
# changed, stays where it is until the new one is whole, and is then kept beside it as .previous.
# `exec`: signals that Slurm sends to every process of a job would end the shell at once, and its death the job, while the
# training still writes its checkpoint.
rule train:
    input:
        manifest=run_manifest,
        arrays=ancient(run_arrays),
        partition=run_partition,
        weights=run_weights,
    output:
        metrics=update("<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/metrics.csv"),
        model=kept("<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/model.safetensors"),
        run=update("<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/run.json"),
    log:
        "<logs>/{scale}/train/{protocol}/{split}/{algorithm}/seed{seed}.log",
    benchmark:
        "<benchmarks>/{scale}/train/{protocol}/{split}/{algorithm}/seed{seed}.tsv"
    retries: 1
    conda:
        "../../environment.yml"
    threads: run_threads
    resources:
        gpu=1 if DEVICE == "cuda" else 0,
        device=DEVICE,
        runtime=run_minutes,
        mem_mb=run_megabytes,
    params:
        run=run_description,
        dataset=subpath(input.manifest, parent=True),
        folder=subpath(output.run, parent=True),
        code=run_code,
    message:
        "Train {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}, seed {wildcards.seed}, {resources.device}"
    shell:
        "exec python -m flatfed train --run {params.run:q} --dataset {params.dataset:q} --partition {input.partition:q}"
        " --weights {input.weights:q} --out {params.folder:q} --device {resources.device:q} --threads {threads:q} > {log:q} 2>&1"
