# What stands here already is restored when a fetch fails (update): a broken file must not cost the data made before it.
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
        "<benchmarks>/fetch/{dataset}.tsv"
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


# Downloaded by torchvision and checked by hash, then kept as plain tensors. `--cache` keeps them for other workflows; data sets
# it does not, since one's own images may change under their path.
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


# The manifest holds the digest of the arrays, so that it alone tells whether the data changed: fetching the same data again
# trains nothing again.
rule partition:
    input:
        manifest=partition_manifest,
        labels=ancient(partition_labels),
    output:
        "<results>/{scale}/partitions/{protocol}/{split}/seed{seed}.npz",
    log:
        "<logs>/{scale}/partition/{protocol}/{split}/seed{seed}.log",
    benchmark:
        "<benchmarks>/{scale}/partition/{protocol}/{split}/seed{seed}.tsv"
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
