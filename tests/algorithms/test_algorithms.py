"""An algorithm's file with a slip in a hook's name or parameters is refused when it is loaded, before any job."""

from __future__ import annotations

import subprocess

import pytest

from flatfed import algorithms, models
from flatfed.errors import ConfigError
from flatfed.runs import versions
from flatfed.user_files import FOLDERS
from repository import ROOT

AGGREGATE = 'return {"w": uploads["w"].median(dim=0, keepdim=True).values}'
RETURN = "return 2 * g"

#: A head of a hook in a class FedBad(FedAvg) -> the message after the file's name.
SLIPS = {
    "def agregate(self, server, uploads, ctx)": "FedBad.agregate: did you mean 'aggregate'?",
    "@property\n    def proximl(self)": "FedBad.proximl: did you mean 'proximal'?",
    'gossip_step = Whole(4, "Q", minimum=1)': "FedBad.gossip_step: did you mean 'gossip_steps'?",
    "def aggregate(self, server, g)": "FedBad.aggregate(self, server, g); expected: aggregate(self, server, uplo",
    "def correct(self, w, g, ctx)": "FedBad.correct(self, w, g, ctx); expected: correct(self, g, w, ctx), in this",
    "def proximal(self)": "FedBad.proximal: a function in place of a value; expected: @property",
    "def correct(g, w, ctx)": "FedBad.correct(g, w, ctx); expected: correct(self, g, w, ctx)",
}


def body(head):
    """Return the body of a class whose hook has this ``head``."""
    return f"{head}:\n        {RETURN}" if head.endswith(")") and "def " in head else head


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_refused_with_file_and_hook(outside, slip):
    path = outside.write("fedbad", f"class FedBad(FedAvg):\n    {body(slip)}\n")
    with pytest.raises(ConfigError) as caught:
        algorithms.load("fedbad")
    assert str(caught.value).startswith(f"{path}: {SLIPS[slip]}") and "\n" not in str(caught.value)


def test_check_finds_a_slip_in_a_folder_of_the_environment(outside, monkeypatch, call):
    path = outside.write("fedbad", f"class FedBad(FedAvg):\n    {body(next(iter(SLIPS)))}\n")
    monkeypatch.setattr(algorithms, "__path__", algorithms.__path__[:1])
    monkeypatch.setenv(FOLDERS, str(outside.folder))
    status, _, text = call("check")
    assert status == 2 and text.startswith(f"flatfed check: {path}: FedBad.agregate: did you mean")


def test_a_slip_in_a_building_block_names_the_blocks_file(outside):
    block = outside.write("_block", "class Block(Algorithm):\n    def corect(self, g, ctx):\n        return 2 * g\n")
    outside.write("fedbad", "from flatfed.algorithms._block import Block\n\n\nclass FedBad(Block, FedAvg):\n    pass\n")
    with pytest.raises(ConfigError, match=f"{block}: Block.corect: did you mean 'correct'"):
        algorithms.load("fedbad")


def test_a_hook_behind_the_base_is_refused(outside):
    """Python would call the base's."""
    text = f"class Median:\n    def aggregate(self, server, uploads, ctx):\n        {AGGREGATE}\n\n\n"
    path = outside.write("fedbad", f"{text}class FedBad(FedAvg, Median):\n    pass\n")
    with pytest.raises(ConfigError, match=f"{path}: FedBad: Median.aggregate is never called.*; name Median first"):
        algorithms.load("fedbad")


def test_a_default_of_public_code_selects_its_class(outside):
    imports = "from flatfed.algorithms import Choice\nfrom flatfed.algorithms.feddyn import FedDyn\n\n\n"
    options = '    regulariser = Choice("FL-SAM@2c16149", ("paper", "FL-SAM@2c16149"), "the proximal term")\n'
    outside.write("fedform", f"{imports}class FedForm(FedDyn):\n{options}")
    assert algorithms.build("fedform", {}).proximal == 0
    assert algorithms.build("fedform", {"regulariser": "paper"}).proximal > 0


#: What is right, however near it is to a slip.
RIGHT = {
    "an underscore": "def _mixed(self, g): return 2 * g",
    "other names of arguments": "def correct(self, gradients, models, _): return gradients",
    "an argument more with a default": "def correct(self, g, w, ctx, factor=2): return factor * g",
    "all arguments at once": "def correct(self, *everything): return super().correct(*everything)",
    "a parameter in place of a property": 'proximal = Number(0.1, "mu")',
}


@pytest.mark.parametrize("right", RIGHT)
def test_what_is_right_is_loaded(outside, right):
    outside.write("fedgood", f"class FedGood(FedAvg):\n    {RIGHT[right]}\n")
    assert algorithms.load("fedgood").__name__ == "FedGood"


@pytest.mark.parametrize("files", [algorithms.FILES, models.FILES], ids=lambda files: files.kind)
def test_files_outside_git_are_not_shipped(files):
    folder = ROOT / "src" / files.package.replace(".", "/")
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=folder, capture_output=True, text=True, check=True).stdout
    in_git = {name.removesuffix(".py") for name in listed.split() if "/" not in name}
    assert in_git | {"as_published"} & files.modules == files.modules


def test_a_users_file_in_the_packages_folder_has_a_digest(tmp_path, monkeypatch):
    """FlatFed is an installed package, of which the file imports shipped modules, too."""
    package = tmp_path / "site-packages"
    imports = "from . import _median, _base, fedavg\nfrom .inner import part\nfrom ..models import extra\n"
    own = ("algorithms/_median", "algorithms/inner/__init__", "algorithms/inner/part", "models/extra")
    texts = {
        "algorithms/fedmedian": f"{imports}class FedMedian(fedavg.FedAvg): ...\n",
        **dict.fromkeys(own, ""),
        **dict.fromkeys(("algorithms/_base", "algorithms/fedavg"), "shipped = True\n"),
    }
    for name, text in texts.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(package)
    monkeypatch.setattr(algorithms, "__path__", [str(package / "algorithms")])
    monkeypatch.setattr(models, "__path__", [str(package / "models")])
    files = algorithms.FILES
    assert "fedmedian" in algorithms.names() and files.own_file("fedavg") is None and files.imported("fedavg") is None
    expected = [package / f"{name}.py" for name, text in texts.items() if not text.startswith("shipped")]
    assert sorted(files.imported("fedmedian").files) == sorted(expected)


def test_a_raised_version_of_a_shipped_base_class_counts(outside, monkeypatch):
    outside.write("fedmine", "class FedMine(FedAvg):\n    pass\n")
    before = versions.of_algorithm("fedmine")
    monkeypatch.setattr(algorithms.load("fedavg"), "version", 2)
    assert versions.of_algorithm("fedmine") == f"FedAvg 2, {before}"


NONE = "overrides no hook, so with equal parameters it is {} under another name"
UNREAD = "no method reads its parameter 'a'"
A = '    a = Number(0.1, "a weight")\n'
READS = "    def correct(self, g, w, ctx):\n        return {} * g\n"
#: Text of a class -> the remarks on it.
EFFECTS = {
    "class FedMine(FedAvg):\n    pass\n": [NONE.format("FedAvg")],
    f"class FedMine(FedAvg):\n{A}": [NONE.format("FedAvg"), UNREAD],
    f"class FedMine(FedAvg):\n{A}    def correct(self, g, w, ctx):\n        return 0.1 * g  # not self.a\n": [UNREAD],
    f"class FedMine(FedAvg):\n{A}{READS.format('self.a')}": [],
    f"class FedMine(FedAvg):\n{A}{READS.format('sum(getattr(self, name) for name in self.parameters())')}": [],
    f"from _weights import weight\n\n\nclass FedMine(FedAvg):\n{A}{READS.format('weight(self)')}": [],
    f"class _Half(FedAvg):\n{READS.format(0.5)}\n\nclass FedMine(_Half):\n    pass\n": [],
    "class FedMine(FedAvg):\n    proximal = 0.1\n": [],
}


@pytest.mark.parametrize("text", EFFECTS)
def test_declarations_without_effect_are_named(outside, monkeypatch, text):
    outside.write("_weights", "def weight(of):\n    return of.a\n")
    outside.write("fedmine", text.replace("from _weights", "from flatfed.algorithms._weights"))
    assert algorithms.remarks("fedmine") == EFFECTS[text]


def test_no_shipped_algorithm_declares_anything_without_effect():
    assert {name: texts for name in algorithms.names() if (texts := algorithms.remarks(name))} == {}


@pytest.mark.parametrize(("value", "message"), [(0, "at least 1"), (21, "at most 20"), (2.0, "2.0 is not a whole")])
def test_a_whole_number_outside_its_bounds_is_refused(value, message):
    window = algorithms.Whole(5, "rounds of the window", minimum=1, maximum=20)
    assert window.check(20, "mine: window") == 20
    with pytest.raises(ConfigError, match=f"^mine: window: .*{message}"):
        window.check(value, "mine: window")
