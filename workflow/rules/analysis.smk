# The loss surface at the model of a run, on the protocol's images or another set (surface.test.npz). A stopped job resumes from a
# hidden file next to the output.
rule surface:
    input:
        unpack(run_data),
        run="<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/run.json",
        model="<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/model.safetensors",
    output:
        "<results>/{scale}/analysis/{protocol}/{split}/{algorithm}/seed{seed}/surface{on}.npz",
    log:
        "<logs>/{scale}/surface/{protocol}/{split}/{algorithm}/seed{seed}{on}.log",
    benchmark:
        "<results>/benchmarks/{scale}/surface/{protocol}/{split}/{algorithm}/seed{seed}{on}.tsv"
    conda:
        "../envs/jobs.yml"
    threads: run_threads
    resources:
        gpu=1 if DEVICE == "cuda" else 0,
        device=job_device,
        runtime=run_minutes,
        mem_mb=run_megabytes,
    params:
        dataset=subpath(input.manifest, parent=True),
        folder=subpath(input.run, parent=True),
        settings=surface_settings,
        version=landscape_file.VERSION,
    message:
        "Loss surface of {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}, seed {wildcards.seed}"
    shell:
        "python -m flatfed surface {params.folder:q} --dataset {params.dataset:q}"
        " --partition {input.partition:q} --out {output:q} {params.settings:q} --device {resources.device:q}"
        " --threads {threads:q} > {log:q} 2>&1"


# Top eigenvalues and trace of the Hessian and of the scaled Hessian at the model of a run. Algorithms of a seed share images and
# random vectors; random errors average out over the seeds.
rule hessian:
    input:
        unpack(run_data),
        run="<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/run.json",
        model="<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/model.safetensors",
    output:
        "<results>/{scale}/analysis/{protocol}/{split}/{algorithm}/seed{seed}/hessian.json",
    log:
        "<logs>/{scale}/hessian/{protocol}/{split}/{algorithm}/seed{seed}.log",
    benchmark:
        "<results>/benchmarks/{scale}/hessian/{protocol}/{split}/{algorithm}/seed{seed}.tsv"
    conda:
        "../envs/jobs.yml"
    threads: run_threads
    resources:
        gpu=1 if DEVICE == "cuda" else 0,
        device=job_device,
        runtime=run_minutes,
        mem_mb=run_megabytes,
    params:
        dataset=subpath(input.manifest, parent=True),
        folder=subpath(input.run, parent=True),
        settings=hessian_settings,
        version=curvature.VERSION,
    message:
        "Hessian of {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}, seed {wildcards.seed}"
    shell:
        "python -m flatfed hessian {params.folder:q} --dataset {params.dataset:q} --partition {input.partition:q}"
        " --out {output:q} {params.settings:q} --seed {wildcards.seed:q} --device {resources.device:q}"
        " --threads {threads:q} > {log:q} 2>&1"


# Accuracy of the model of a run on test images of each client, drawn in proportion to the classes of its training images.
rule clients:
    input:
        unpack(run_data),
        run="<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/run.json",
        model="<results>/{scale}/runs/{protocol}/{split}/{algorithm}/seed{seed}/model.safetensors",
    output:
        "<results>/{scale}/analysis/{protocol}/{split}/{algorithm}/seed{seed}/clients.csv",
    log:
        "<logs>/{scale}/clients/{protocol}/{split}/{algorithm}/seed{seed}.log",
    benchmark:
        "<results>/benchmarks/{scale}/clients/{protocol}/{split}/{algorithm}/seed{seed}.tsv"
    conda:
        "../envs/jobs.yml"
    threads: run_threads
    resources:
        gpu=1 if DEVICE == "cuda" else 0,
        device=job_device,
        runtime=run_minutes,
        mem_mb=run_megabytes,
    params:
        dataset=subpath(input.manifest, parent=True),
        folder=subpath(input.run, parent=True),
    message:
        "Accuracy per client of {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}, seed {wildcards.seed}"
    shell:
        "python -m flatfed clients {params.folder:q} --dataset {params.dataset:q} --partition {input.partition:q}"
        " --out {output:q} --device {resources.device:q} --threads {threads:q} > {log:q} 2>&1"
