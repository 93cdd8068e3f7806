"""Retired names and their replacements: refused for one release in one line."""

#: (kind, retired name) -> the remedy. Kinds: command, option, key, value, attribute of an algorithm.
RETIRED: dict[tuple[str, str], str] = {
    ("command", "results"): "run python studies/results.py",
    ("option", "--out-dir"): "write `--out DIR`",
    ("option", "--cells"): "the csv of a table has the ids of its columns and rows",
    ("option", "--keep-models"): "write `--config keep_models=all`",
    ("option", "--point"): "leave it out, a percentage point is allowed",
    ("option", "--claims"): "`flatfed verify --json FILE` writes every claim",
    ("option", "--calibrate"): "`flatfed plan` reads finished runs; make one, and it knows their hours and memory",
    ("option", "--power"): "docs/running.md has a table of the seeds that a difference takes",
    ("option", "--spread"): "docs/running.md has a table of the seeds that a difference takes",
    ("command", "specify"): "`flatfed report` reads the configuration itself",
    ("option", "--spec"): "name ids, as in `flatfed cell TABLE COLUMN ROW --out FILE`",
    ("command", "published"): "use `flatfed table TABLE --runs FOLDER`",
    ("command", "export"): "pack the folder of runs in an archive; records hold the digests of all files",
    ("command", "gallery"): "run `make figures-page`",
    ("command", "order"): "run studies/order.py",
    ("command", "evaluate"): "the last line of metrics.csv has the model's scores; `flatfed rerun` reproduces them",
    ("value", "streams"): "name an executor that remains: sequential, stacked or graph",
    ("value", "branches"): "name an executor that remains: sequential, stacked or graph",
    ("option", "--density-vectors"): "leave it out, no spectral density is estimated",
    ("option", "--steps"): "leave it out, no spectral density is estimated",
    ("option", "--with"): "leave it out; each surface is drawn along its own filters",
    ("key", "frame"): "leave it out; each surface is drawn along its own filters",
    ("value", "auto"): "name an executor that remains: sequential, stacked or graph",
    ("key", "check"): "write the numbers that an erratum names under `finding`",
    ("command", "disputed"): "run studies/disputed.py; docs/disputed.md has its page",
    ("command", "effects"): "run studies/effects.py; docs/effects.md has its page",
    ("key", "against"): "name the pair of rows in studies/effects.yaml",
    ("value", "direction: official_code"): "write server_step, the same rule",
    ("value", "first: official_code"): "write unperturbed, the same rule",
    ("value", "average: paper"): "write active_clients, the same rule",
    ("attribute", "alike"): "declare `whole_rows`",
    ("value", "effects"): "leave out the kind and name both rows of a pair; studies/effects.py compares them",
}


def replacement(kind: str, name: object) -> str | None:
    """Return the line for a retired name of a ``kind``, None for any other name."""
    use = RETIRED.get((kind, str(name)))
    return use and f"{kind} {str(name)!r} is retired: {use}"
