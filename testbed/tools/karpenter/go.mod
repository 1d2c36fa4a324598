module gpushare.io/testbed/tools/karpenter

go 1.26.0

require sigs.k8s.io/karpenter v1.14.1
