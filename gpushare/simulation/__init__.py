"""Simulation of placement: a workload arrives at nodes, and each policy decides where its pods go. Pure.

The decisions about GPUs are those of ``scheduling``. What kube-scheduler decides (the fit of CPU, memory and
GPU model, and the choice among scored nodes) is modelled here. Equal seeds give equal results.
"""
