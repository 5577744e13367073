// Nobody runs it: the load's agents only play.

extern "C" void wide(int* out, int n) {
  for (int i = 0; i < n; ++i) out[i] = i;
}
