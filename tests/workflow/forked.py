"""``python -m snakemake`` as a fork of a process that has imported it and found its plugins: most of a dry run."""

import atexit
import functools
import json
import os
import runpy
import subprocess
import sys


@functools.cache
def server():
    """Return the process that forks; it ends with this one."""
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, __file__], env=bare, **pipes)
    atexit.register(process.communicate)
    return process


def snakemake(words, cwd, env, output):
    """Run Snakemake with ``words``, streams in the files ``output``; return its exit status."""
    request = {"words": words, "cwd": cwd, "env": env, "output": output}
    print(json.dumps(request, default=str), file=server().stdin, flush=True)
    return int(server().stdout.readline())


def become(words, cwd, env, output):
    """Make of this fork what Python would be when it starts Snakemake."""
    with open(os.devnull) as stdin, open(output[0], "w") as stdout, open(output[1], "w") as stderr:
        for number, file in enumerate((stdin, stdout, stderr)):
            os.dup2(file.fileno(), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[0], sys.argv[1:] = cwd, words
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    import smart_open  # noqa: F401 (for the forks)
    import snakemake.cli

    snakemake.cli.get_argument_parser()  # finds the plugins
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            sys.exit(become(**json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
