// One step away from (31, 72) costs some ten microseconds: more than anything that a busy machine does to most samples.

extern "C" void valley(int* out, int n, int x, int y) {
  const int distance = (x < 31 ? 31 - x : x - 31) + (y < 72 ? 72 - y : y - 72);
  for (volatile int i = 0; i < distance * 10000; i = i + 1) {
  }
  for (int i = 0; i < n; ++i) out[i] = i;
}

extern "C" void valley_reference(int* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = i;
}
