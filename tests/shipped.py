"""The configuration of this repository, loaded once for all tests."""


from flatfed import plan
from repository import ROOT

EXP = plan.load(ROOT)
