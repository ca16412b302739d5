module keyhouse/benchmarks/load

go 1.24
