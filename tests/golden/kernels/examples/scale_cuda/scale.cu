// Never compiled: the tests only read the definition.
extern "C" __global__ void scale(const float* x, float* y);
extern "C" __global__ void scale_reference(const float* x, float* y);
