// Never compiled: the tests only read the definition.
extern "C" void scale(const float* x, float* y);
extern "C" void scale_reference(const float* x, float* y);
