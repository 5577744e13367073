"""Helpers for tuning grouped matrix products by hand; see `tunefarm.grouped_gemm.tuning`."""
