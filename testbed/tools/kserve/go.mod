module gpushare.io/testbed/tools/kserve

go 1.26.0

require github.com/kserve/kserve v0.17.0
