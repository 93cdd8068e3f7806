# A stopped training leaves checkpoints next to the outputs, which no rule declares; a retry or the next call resumes. `update`: the
# old run stays until the new one is complete, then as .previous. `exec`: Slurm signals every process of a job. A shell would end the
# job at once, while the training still writes its checkpoint.
rule train:
    input:
        unpack(run_data),
        weights=run_weights,
    output:
        metrics=update("<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/metrics.csv"),
        model=kept("<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/model.safetensors"),
        run=update("<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/run.json"),
    log:
        "<logs>/{scale}/train/{protocol}/{split}/{algorithm}/seed{seed}.log",
    benchmark:
        "<results>/benchmarks/{scale}/train/{protocol}/{split}/{algorithm}/seed{seed}.tsv"
    conda:
        "../envs/jobs.yml"
    threads: run_threads
    resources:
        gpu=1 if DEVICE == "cuda" else 0,
        device=job_device,
        runtime=run_minutes,
        mem_mb=run_megabytes,
    params:
        run=run_settings,
        config=run_config,
        dataset=subpath(input.manifest, parent=True),
        folder=subpath(output.run, parent=True),
        versions=run_versions,
    message:
        "Train {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}, seed {wildcards.seed}, {resources.device}"
    shell:
        "exec python -m flatfed train --run {params.config:q} --dataset {params.dataset:q} --partition {input.partition:q}"
        " --weights {input.weights:q} --out {params.folder:q} --device {resources.device:q} --threads {threads:q} > {log:q} 2>&1"
