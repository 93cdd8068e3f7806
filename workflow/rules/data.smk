# If a fetch fails, the old data stay (update).
rule fetch:
    input:
        source_file,
    output:
        images=update("<resources>/{dataset}/images.npy"),
        labels=update("<resources>/{dataset}/labels.npy"),
        manifest=update("<resources>/{dataset}/dataset.json"),
    log:
        "<logs>/fetch/{dataset}.log",
    benchmark:
        "<results>/benchmarks/fetch/{dataset}.tsv"
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        spec=dataset_spec,
        images=source_images,
        version=data.VERSION,
        folder=subpath(output.manifest, parent=True),
    message:
        "Data set {wildcards.dataset}"
    shell:
        "python -m flatfed fetch --spec {params.spec:q} --out {params.folder:q} > {log:q} 2>&1"


# torchvision downloads the weights and checks their hash; FlatFed stores plain tensors. Snakemake's `--cache` shares them between
# workflows. It does not share datasets, because a user's images may change under one path.
rule weights:
    output:
        ensure("<resources>/weights/{weights}.safetensors", non_empty=True),
    log:
        "<logs>/weights/{weights}.log",
    cache: True
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        name=weights_name,
        version=pretrained.VERSION,
    message:
        "Pre-trained weights {wildcards.weights}"
    shell:
        "python -m flatfed weights --name {params.name:q} --out {output:q} > {log:q} 2>&1"


# The manifest holds the digest of the arrays. Fetching the same data again therefore reruns no training.
rule partition:
    input:
        unpack(partition_data),
    output:
        "<results>/{scale}/partitions/{protocol}/{split}/seed{seed}.npz",
    log:
        "<logs>/{scale}/partition/{protocol}/{split}/seed{seed}.log",
    benchmark:
        "<results>/benchmarks/{scale}/partition/{protocol}/{split}/seed{seed}.tsv"
    conda:
        "../envs/jobs.yml"
    params:
        spec=partition_spec,
        dataset=subpath(input.manifest, parent=True),
        version=partition_version,
    message:
        "Partition {wildcards.split} of {wildcards.protocol}, seed {wildcards.seed}"
    shell:
        "python -m flatfed partition --spec {params.spec:q} --dataset {params.dataset:q} --out {output:q} > {log:q} 2>&1"
