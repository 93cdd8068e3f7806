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
    threads: of("threads")
    resources:
        gpu=int(DEVICE == "cuda"),
        device=job_device,
        runtime=request(240, 10),
        mem_mb=request(16_000, 4_000),
    params:
        command="hessian",
        dataset=subpath(input.manifest, parent=True),
        folder=subpath(input.run, parent=True),
        settings=of("hessian"),
        version=curvature.VERSION,
    message:
        "Hessian of {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}, seed {wildcards.seed}"
    shell:
        "PYTHONPATH=$FLATFED_PATH python -P -m flatfed {params.command:q} {params.folder:q} --dataset {params.dataset:q}"
        " --partition {input.partition:q} --out {output:q} {params.settings:q} --device {resources.device:q}"
        " --threads {threads:q} > {log:q} 2>&1"


# The loss surface at the model of a run, on the protocol's images or another set (surface.test.npz).
use rule hessian as surface with:
    output:
        "<results>/{scale}/analysis/{protocol}/{split}/{algorithm}/seed{seed}/surface{on}.npz",
    log:
        "<logs>/{scale}/surface/{protocol}/{split}/{algorithm}/seed{seed}{on}.log",
    benchmark:
        "<results>/benchmarks/{scale}/surface/{protocol}/{split}/{algorithm}/seed{seed}{on}.tsv"
    params:
        command="surface",
        settings=of("surface"),
        version=landscape_file.VERSION,
    message:
        "Loss surface of {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}, seed {wildcards.seed}"


# Accuracy of the model of a run on test images of each client, drawn in proportion to the classes of its training images.
use rule hessian as clients with:
    output:
        "<results>/{scale}/analysis/{protocol}/{split}/{algorithm}/seed{seed}/clients.csv",
    log:
        "<logs>/{scale}/clients/{protocol}/{split}/{algorithm}/seed{seed}.log",
    benchmark:
        "<results>/benchmarks/{scale}/clients/{protocol}/{split}/{algorithm}/seed{seed}.tsv"
    resources:
        gpu=int(DEVICE == "cuda"),
        device=job_device,
        runtime=request(30, 10),
        mem_mb=request(8_000, 4_000),
    params:
        command="clients",
        settings=[],
        version=client_accuracies.VERSION,
    message:
        "Accuracy per client of {wildcards.algorithm} on {wildcards.split} of {wildcards.protocol}, seed {wildcards.seed}"
