"""``kubectl gpushare doctor``: checks of everything between kube-scheduler and the GPUs.

``collect`` reads one ``Installation``, and the checks are pure functions of it. What does not belong here:
repairs. The doctor changes nothing, and creates nothing but the pod of ``--probe``.
"""
