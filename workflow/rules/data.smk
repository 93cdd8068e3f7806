# A complete dataset whose source was given in an earlier call (data=) has no rule: it stays as it was fetched.
rule fetch:
    input:
        source_files,
    output:
        images="<resources>/{dataset}/images.npy",
        labels="<resources>/{dataset}/labels.npy",
        manifest="<resources>/{dataset}/dataset.json",
    log:
        "<logs>/fetch/{dataset}.log",
    wildcard_constraints:
        dataset=EXPERIMENT.fetched_datasets(),
    localrule: True
    conda:
        "../envs/jobs.yml"
    params:
        spec=of("dataset_spec"),
        images=of("source_digest"),
        version=data.VERSION,
        folder=subpath(output.manifest, parent=True),
    message:
        "Data set {wildcards.dataset}"
    shell:
        "PYTHONPATH=$FLATFED_PATH python -P -m flatfed fetch --spec {params.spec:q} --out {params.folder:q} > {log:q} 2>&1"


# The manifest holds the digest of the arrays. Fetching the same data again therefore reruns no training.
rule partition:
    input:
        unpack(partition_data),
    output:
        "<results>/{scale}/partitions/{protocol}/{split}/seed{seed}.npz",
    log:
        "<logs>/{scale}/partition/{protocol}/{split}/seed{seed}.log",
    conda:
        "../envs/jobs.yml"
    params:
        spec=of("partition_spec"),
        dataset=subpath(input.manifest, parent=True),
        version=of("partition_version"),
    message:
        "Partition {wildcards.split} of {wildcards.protocol}, seed {wildcards.seed}"
    shell:
        "PYTHONPATH=$FLATFED_PATH python -P -m flatfed partition --spec {params.spec:q} --dataset {params.dataset:q}"
        " --out {output:q} > {log:q} 2>&1"
