# Seconds per round, from a separate run. It takes all cores, so no other job runs at the same time. On other hosts,
# `--set-threads timing=N` sets the cores.
rule timing:
    input:
        unpack(run_data),
        weights=of("run_weights"),
    output:
        "<results>/{scale}/analysis/{protocol}/{split}/{algorithm}/timing.json",
    log:
        "<logs>/{scale}/timing/{protocol}/{split}/{algorithm}.log",
    benchmark:
        "<results>/benchmarks/{scale}/timing/{protocol}/{split}/{algorithm}.tsv"
    conda:
        "../envs/jobs.yml"
    threads: all_cores
    resources:
        gpu=int(DEVICE == "cuda"),
        device=job_device,
        runtime=request(720, 10),
        mem_mb=request(16_000, 4_000),
    params:
        run=of("timing_settings"),
        config=run_config,
        dataset=subpath(input.manifest, parent=True),
        threads=of("threads"),
        versions=of("run_versions"),
        format=timing.FORMAT,
    message:
        "Seconds per round of {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}, alone"
    shell:
        "PYTHONPATH=$FLATFED_PATH python -P -m flatfed time --run {params.config:q} --dataset {params.dataset:q}"
        " --partition {input.partition:q} --weights {input.weights:q} --out {output:q} --device {resources.device:q}"
        " --threads {params.threads:q} > {log:q} 2>&1"
