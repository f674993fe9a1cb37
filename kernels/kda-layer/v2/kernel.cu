// One launch, in either of two forms: a head by a cluster, its rows in registers, where waiting counts; or by a block, its
// rows in tiles, whose products with key and query are those of tensor cores, where arithmetic does.
#if TENSOR_CORES
#include "tiles.cuh"
#else
#include "clusters.cuh"
#endif
