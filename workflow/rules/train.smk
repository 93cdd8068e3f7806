# A stopped training leaves checkpoints next to the outputs, which no rule declares; a retry or the next call resumes. `update`: the
# old run stays until the new one is complete, then as .previous. `exec`: Slurm signals every process of a job. A shell would end the
# job at once, while the training still writes its checkpoint.
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
    conda:
        "../envs/jobs.yml"
    threads: run_threads
    resources:
        gpu=1 if DEVICE == "cuda" else 0,
        device=job_device,
        runtime=run_minutes,
        mem_mb=run_megabytes,
    params:
        run=run_description,
        dataset=subpath(input.manifest, parent=True),
        folder=subpath(output.run, parent=True),
        versions=run_versions,
    message:
        "Train {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}, seed {wildcards.seed}, {resources.device}"
    shell:
        "exec python -m flatfed train --run {params.run:q} --dataset {params.dataset:q} --partition {input.partition:q}"
        " --weights {input.weights:q} --out {params.folder:q} --device {resources.device:q} --threads {threads:q} > {log:q} 2>&1"


# With `seeds_together`: all `seeds` of a run in one process (flatfed.engine.job.together). Other seeds train by the rule above.
if config.get("seeds_together"):

    use rule train as train_seeds with:
        input:
            manifest=run_manifest,
            arrays=ancient(run_arrays),
            partition=run_partitions,
            weights=run_weights,
        output:
            metrics=update(of_all_seeds("metrics.csv")),
            model=kept(of_all_seeds("model.safetensors")),
            run=update(of_all_seeds("run.json")),
        log:
            "<logs>/{scale}/train/{protocol}/{split}/{algorithm}/seeds.log",
        benchmark:
            "<benchmarks>/{scale}/train/{protocol}/{split}/{algorithm}/seeds.tsv"
        resources:
            gpu=1 if DEVICE == "cuda" else 0,
            device=job_device,
            runtime=together_minutes,
            mem_mb=together_megabytes,
        params:
            run=run_descriptions,
            dataset=subpath(input.manifest, parent=True),
            folder=run_folders,
            versions=run_versions,
        message:
            "Train {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}, all seeds, {resources.device}"

    ruleorder: train_seeds > train
