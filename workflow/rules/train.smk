# A stopped training leaves checkpoints next to the outputs, which no rule declares; a retry or the next call resumes. A finished
# one keeps hard links of its files in a hidden folder: Snakemake deletes outputs before a job, and an equal run is linked back.
# `exec`: Slurm signals every process of a job. A shell would end the job at once, while the training still writes its checkpoint.
rule train:
    input:
        unpack(run_data),
        weights=of("run_weights"),
    output:
        metrics="<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/metrics.csv",
        model="<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/model.safetensors",
        run="<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/run.json",
    log:
        "<logs>/{scale}/train/{protocol}/{split}/{algorithm}/seed{seed}.log",
    benchmark:
        "<results>/benchmarks/{scale}/train/{protocol}/{split}/{algorithm}/seed{seed}.tsv"
    conda:
        "../envs/jobs.yml"
    threads: of("threads")
    resources:
        gpu=int(DEVICE == "cuda"),
        device=job_device,
        runtime=request(720, 10),
        mem_mb=request(16_000, 4_000),
    params:
        run=of("run_settings"),
        config=run_config,
        dataset=subpath(input.manifest, parent=True),
        folder=subpath(output.run, parent=True),
        versions=of("run_versions"),
    message:
        "Train {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}, seed {wildcards.seed}, {resources.device}"
    shell:
        "PYTHONPATH=$FLATFED_PATH exec python -P -m flatfed train --run {params.config:q} --dataset {params.dataset:q}"
        " --partition {input.partition:q} --weights {input.weights:q} --out {params.folder:q} --versions {params.versions:q}"
        " --device {resources.device:q} --threads {threads:q} > {log:q} 2>&1"
