"""The policies that the FGD paper compares, as its authors' simulator has them. No cluster can use them.

Source: github.com/hkust-adsl/kubernetes-scheduler-simulator, pkg/simulator/plugin at 8f3d641.
"""

from collections.abc import Mapping
from typing import Final

from gpushare.simulation.decider import PlacerFactory, scored
from gpushare.simulation.reference.bestfit import BestFit
from gpushare.simulation.reference.clustering import Clustering
from gpushare.simulation.reference.dotprod import DotProd
from gpushare.simulation.reference.fgd import Fgd
from gpushare.simulation.reference.packing import Packing
from gpushare.simulation.reference.random_node import RandomNode

REFERENCES: Final[Mapping[str, PlacerFactory]] = {
    "random": scored(RandomNode),
    "dotprod": scored(DotProd),
    "clustering": scored(Clustering),
    "packing": scored(Packing),
    "bestfit": scored(BestFit),
    "fgd": scored(Fgd),
}
