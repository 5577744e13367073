"""Helpers for tuning scripts: see `tunefarm.tune.utils`. To tune through the daemon call `tunefarm.Client.tune` or
`tunefarm.tune_job`."""
