module gpushare.io/testbed/tools/kuberay

go 1.26.0

require github.com/ray-project/kuberay/ray-operator v1.6.2
