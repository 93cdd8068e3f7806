"""`flatfed check` names the layers that an executor of a protocol cannot run."""

TABLE = """
title: Statistics
rows: [fedavg]
columns: [{protocol: normed, splits: [dir0.6-100]}, {protocol: centred, splits: [path3-100]}]
protocols:
  normed: {dataset: digits, model: {name: resnet18_bn}, rounds: 1, executor: {cuda: graph}}
  centred: {dataset: digits, model: {name: centring}, rounds: 1}
"""
CENTRING = """
from torch import nn


class Centre(nn.Module):
    def forward(self, x):
        return x - x.mean(dim=0)


def build(shape, classes):
    return nn.Sequential(nn.Flatten(), Centre(), nn.Linear(64, classes))
"""


def test_check_names_layers_that_an_executor_cannot_run(tmp_path, call):
    (tmp_path / "norms.yaml").write_text(TABLE)
    (tmp_path / "centring.py").write_text(CENTRING)
    settings = f"folders=[{tmp_path}]", "tables=[norms]", "figures=[]", "scale=paper"
    status, output, error = call("check", "--config", *settings)
    assert status == 0, error
    warnings = [line for line in output.splitlines() if line.startswith("warning: ")]
    assert warnings == [
        "warning: protocol normed, device cuda: executor products cannot run model resnet18_bn: layer 'bn1' (Norm): "
        "recorded steps have no BatchNorm; use `executor: stacked` or `executor: sequential`",
        f"warning: protocol centred, device cuda: executor stacked cannot run model centring ({tmp_path}/centring.py): "
        "an image's values depend on padding of its batch, first after layer '1' (Centre); use `executor: sequential`",
    ]
