"""What hopper_bringup.py runs, smallest first."""

SIZES = [0, 1, 63, 64, 65, 200, 0, 17]  # rows of each expert; 410 in all
MANY = [0, 5, 300, 128, 1, 0, 129, 37, 512, 8, 0, 0, 95, 1, 256, 44]


def _problem(sizes, n, k, topk=2, **flags):
    problem = dict(tokens=sum(sizes) // topk, topk=topk, E=len(sizes), N=n, K=k, permute_x=False, permute_y=False, fuse_mul_post=False)
    problem.update(flags)
    return problem


def _config(m, n, k, warps, stages=3, **rest):
    config = dict(BLOCK_SIZE_M=m, BLOCK_SIZE_N=n, BLOCK_SIZE_K=k, num_warps=warps, num_stages=stages, epilogue="staged", schedule="coop",
                  cluster_m=1, cluster_n=1, use_tma_store=False, use_tma_load_x=True, use_tma_load_w=True, use_tma_load_dy=True)
    config.update(rest)
    return config


def _probe(name, probe, op, config, dtype="bf16"):
    return dict(kind="probe", name=name, probe=probe, op=op, config=config, dtype=dtype, problem=_problem(SIZES, 256, 256))


def _kernel(name, op, config, sizes=None, n=328, k=264, dtype="bf16", **flags):
    sizes = sizes or SIZES
    return dict(kind="kernel", name=name, op=op, config=config, dtype=dtype, sizes=sizes, problem=_problem(sizes, n, k, **flags))


_SMALL = _config(64, 64, 64, 4, 6)
PROBES = [
    _probe("wgmma K-major 128B", "multiply", "forward", _SMALL),
    _probe("wgmma K-major 64B", "multiply", "forward", _config(64, 64, 32, 4, 8)),
    _probe("wgmma K-major two chunks", "multiply", "forward", _config(64, 128, 128, 4)),
    _probe("wgmma two tiles, N 256", "multiply", "forward", _config(64, 256, 64, 4)),
    _probe("wgmma f16", "multiply", "forward", _SMALL, dtype="f16"),
    _probe("wgmma B transposed", "multiply", "dx", _config(64, 64, 64, 4, 6)),
    _probe("wgmma B transposed N 256", "multiply", "dx", _config(64, 64, 256, 4)),
    _probe("wgmma B transposed 64B", "multiply", "dx", _config(64, 64, 96, 4, 6, epilogue_columns=32)),
    _probe("wgmma A, B transposed", "multiply", "dw", _config(64, 64, 128, 4)),
    _probe("wgmma A transposed, two", "multiply", "dw", _config(64, 128, 64, 4)),
    _probe("boxes K-major", "load", "forward", _SMALL),
    _probe("boxes K-major 64B", "load", "forward", _config(64, 64, 32, 4, 8)),
    _probe("boxes MN-major 3D", "load", "dx", _config(64, 64, 128, 4)),
    _probe("boxes MN-major", "load", "dw", _config(64, 64, 192, 4)),
    _probe("multicast of columns", "load", "forward", _config(64, 128, 64, 4, cluster_m=2)),
    _probe("multicast of rows", "load", "dx", _config(64, 64, 128, 4, cluster_n=2)),
    _probe("multicast dW", "load", "dw", _config(64, 64, 128, 4, cluster_m=2)),
    _probe("cp.async", "copy", "forward", _SMALL),
    _probe("stmatrix, rows", "store", "forward", _SMALL),
    _probe("stmatrix, boxes", "store", "forward", dict(_SMALL, use_tma_store=True)),
    _probe("stmatrix, boxes 64B", "store", "forward", dict(_SMALL, use_tma_store=True, epilogue_columns=32)),
    _probe("bulk rows", "store", "forward", dict(_SMALL, epilogue="bulk")),
    _probe("stmatrix transposed", "store", "forward", _config(16, 64, 64, 4, 5, swap_operands=True)),
]

_GATHER = dict(use_tma_load_x=False)
STEPS = [
    _kernel("fwd simplest", "forward", dict(_SMALL, epilogue="direct"), sizes=[64], n=64, k=64),
    _kernel("fwd one group", "forward", dict(_SMALL, epilogue="direct")),
    _kernel("fwd staged", "forward", _SMALL),
    _kernel("fwd boxes", "forward", dict(_SMALL, use_tma_store=True)),
    _kernel("fwd coop", "forward", _config(128, 128, 64, 8, 4, use_tma_store=True)),
    _kernel("fwd split q", "forward", _config(64, 256, 64, 8, 4)),
    _kernel("fwd pingpong", "forward", _config(64, 128, 64, 8, 4, schedule="pingpong", use_tma_store=True)),
    _kernel("fwd pingpong many", "forward", _config(128, 128, 64, 8, 5, schedule="pingpong", use_tma_store=True), sizes=MANY, n=1536, k=2048),
    _kernel("fwd 128x256", "forward", _config(128, 256, 64, 8, 3, use_tma_store=True), sizes=MANY, n=1536, k=2048),
    _kernel("fwd three groups", "forward", _config(192, 128, 64, 12, 4)),
    _kernel("fwd cluster m", "forward", _config(128, 128, 64, 8, 4, cluster_m=2, use_tma_store=True)),
    _kernel("fwd cluster m many", "forward", _config(128, 256, 64, 8, 3, cluster_m=2, use_tma_store=True), sizes=MANY, n=1536, k=2048),
    _kernel("fwd cluster n", "forward", _config(128, 128, 64, 8, 4, cluster_n=2, use_tma_store=True)),
    _kernel("fwd cluster pingpong", "forward", _config(64, 128, 64, 8, 4, cluster_m=2, schedule="pingpong"), sizes=MANY, n=1536, k=768),
    _kernel("fwd gather", "forward", _config(128, 128, 64, 8, 4, **_GATHER), permute_x=True),
    _kernel("fwd gather cluster", "forward", _config(128, 128, 64, 8, 4, cluster_m=2, **_GATHER), sizes=MANY, n=1536, k=2048, permute_x=True),
    _kernel("fwd scatter", "forward", _config(128, 128, 64, 8, 4), permute_y=True),
    _kernel("fwd scatter multiply", "forward", _config(128, 128, 64, 8, 4), permute_y=True, fuse_mul_post=True),
    _kernel("fwd scatter multiply direct", "forward", _config(128, 128, 64, 8, 4, epilogue="direct"), permute_y=True, fuse_mul_post=True),
    _kernel("fwd scatter bulk", "forward", _config(128, 128, 64, 8, 4, epilogue="bulk", epilogue_columns=128), permute_y=True),
    _kernel("fwd f16", "forward", _config(128, 128, 64, 8, 4), dtype="f16"),
    _kernel("fwd swap", "forward", _config(16, 128, 64, 8, 6, swap_operands=True)),
    _kernel("fwd swap boxes", "forward", _config(64, 256, 64, 8, 4, swap_operands=True, use_tma_store=True)),
    _kernel("fwd swap gather", "forward", _config(32, 128, 64, 8, 6, swap_operands=True, **_GATHER), permute_x=True),
    _kernel("fwd swap scatter", "forward", _config(32, 128, 64, 8, 6, swap_operands=True), permute_y=True, fuse_mul_post=True),
    _kernel("dx staged", "dx", _config(128, 64, 128, 8, 4)),
    _kernel("dx boxes cluster", "dx", _config(128, 64, 256, 8, 3, use_tma_store=True, cluster_m=2), sizes=MANY, n=1536, k=2048),
    _kernel("dx pingpong 192", "dx", _config(64, 64, 192, 8, 4, schedule="pingpong", use_tma_store=True)),
    _kernel("dx 96", "dx", _config(128, 64, 96, 8, 4, epilogue_columns=32)),
    _kernel("dx scatter", "dx", _config(128, 64, 128, 8, 4), permute_x=True),
    _kernel("dx gather", "dx", _config(128, 64, 128, 8, 4, use_tma_load_dy=False), permute_y=True),
    _kernel("dx swap", "dx", _config(32, 64, 128, 8, 6, swap_operands=True)),
    _kernel("fwd fit", "forward", _config(144, 128, 64, 8, 5, swap_operands=True, use_tma_store=True), MANY),
    _kernel("fwd fit 256", "forward", _config(192, 256, 64, 8, 3, swap_operands=True, use_tma_store=True), MANY),
    _kernel("fwd fit scatter", "forward", _config(176, 128, 64, 8, 4, swap_operands=True, schedule="pingpong"), MANY, permute_y=True),
    _kernel("fwd fit gather c2m", "forward", _config(96, 128, 64, 8, 4, swap_operands=True, cluster_m=2, **_GATHER), MANY, permute_x=True),
    _kernel("dx fit", "dx", _config(144, 64, 128, 8, 4, swap_operands=True, schedule="pingpong", use_tma_store=True), MANY),
    _kernel("dx fit c2n", "dx", _config(160, 64, 128, 8, 4, swap_operands=True, cluster_n=2), MANY),
    _kernel("dw direct", "dw", _config(64, 64, 64, 4, 6, epilogue="direct")),
    _kernel("dw boxes", "dw", _config(64, 128, 128, 8, 4, use_tma_store=True)),
    _kernel("dw 128x256 cluster", "dw", _config(64, 128, 256, 8, 3, use_tma_store=True, cluster_m=2), sizes=MANY, n=1536, k=2048),
    _kernel("dw pingpong", "dw", _config(64, 128, 128, 8, 4, use_tma_store=True, schedule="pingpong")),
    _kernel("dw cluster n", "dw", _config(64, 128, 128, 8, 4, cluster_n=2)),
    _kernel("dw gather x", "dw", _config(64, 128, 128, 8, 4, use_tma_load_x=False), permute_x=True),
    _kernel("dw gather dy", "dw", _config(64, 128, 128, 8, 4, use_tma_load_dy=False), permute_y=True),
    _kernel("dw copies both", "dw", _config(64, 128, 128, 8, 4, use_tma_load_x=False, use_tma_load_dy=False), permute_y=True),
    _kernel("dw depth 128", "dw", _config(128, 128, 128, 8, 3)),
]

_QWEN_UP = dict(tokens=4096, topk=8, E=128, N=1536, K=2048, permute_x=False, permute_y=False, fuse_mul_post=False)
_QWEN_DOWN = dict(_QWEN_UP, N=2048, K=768)
_LLAMA_UP = dict(tokens=8192, topk=1, E=16, N=16384, K=5120, permute_x=False, permute_y=False, fuse_mul_post=False)
_DECODE = dict(_QWEN_UP, tokens=128)


def _timed(name, op, problem, config):
    return dict(kind="kernel", timed=True, name=name, op=op, config=config, dtype="bf16", problem=problem)


TIMED = []
_BOX = dict(use_tma_store=True)
for _name, _problem_, _tiles in (("qwen up", _QWEN_UP, "all"), ("qwen down", _QWEN_DOWN, "all"), ("llama up", _LLAMA_UP, "big")):
    TIMED += [
        _timed(_name + " fwd", "forward", _problem_, _config(128, 256, 64, 8, 3, **_BOX)),
        _timed(_name + " fwd", "forward", _problem_, _config(128, 256, 64, 8, 4, **_BOX)),
        _timed(_name + " fwd", "forward", _problem_, _config(128, 256, 64, 8, 4, cluster_m=2, **_BOX)),
        _timed(_name + " fwd", "forward", _problem_, _config(128, 256, 64, 8, 4, cluster_n=2, **_BOX)),
        _timed(_name + " fwd", "forward", _problem_, _config(256, 128, 64, 8, 4, **_BOX)),
        _timed(_name + " fwd", "forward", _problem_, _config(128, 128, 64, 8, 5, schedule="pingpong", **_BOX)),
        _timed(_name + " fwd", "forward", _problem_, _config(64, 256, 64, 8, 4, schedule="pingpong", **_BOX)),
        _timed(_name + " fwd", "forward", _problem_, _config(64, 192, 64, 8, 5, schedule="pingpong", **_BOX)),
        _timed(_name + " fwd", "forward", _problem_, _config(128, 256, 64, 8, 3, epilogue_columns=128)),
        _timed(_name + " dx", "dx", _problem_, _config(128, 64, 256, 8, 3, **_BOX)),
        _timed(_name + " dx", "dx", _problem_, _config(128, 64, 256, 8, 4, cluster_m=2, **_BOX)),
        _timed(_name + " dx", "dx", _problem_, _config(128, 64, 128, 8, 5, schedule="pingpong", **_BOX)),
        _timed(_name + " dx", "dx", _problem_, _config(64, 64, 256, 8, 4, schedule="pingpong", **_BOX)),
        _timed(_name + " fit fwd", "forward", _problem_, _config(144, 128, 64, 8, 5, swap_operands=True, **_BOX)),
        _timed(_name + " fit fwd", "forward", _problem_, _config(144, 128, 64, 8, 4, swap_operands=True, schedule="pingpong", **_BOX)),
        _timed(_name + " fit fwd", "forward", _problem_, _config(192, 256, 64, 8, 3, swap_operands=True, **_BOX)),
        _timed(_name + " fit dx", "dx", _problem_, _config(144, 64, 128, 8, 4, swap_operands=True, schedule="pingpong", **_BOX)),
        _timed(_name + " fit dx", "dx", _problem_, _config(192, 64, 256, 8, 3, swap_operands=True, **_BOX)),
        _timed(_name + " dw", "dw", _problem_, _config(64, 128, 256, 8, 3, **_BOX)),
        _timed(_name + " dw", "dw", _problem_, _config(64, 128, 256, 8, 4, cluster_m=2, **_BOX)),
        _timed(_name + " dw", "dw", _problem_, _config(64, 256, 128, 8, 4, **_BOX)),
        _timed(_name + " dw", "dw", _problem_, _config(64, 128, 128, 8, 5, schedule="pingpong", **_BOX)),
    ]
TIMED += [
    _timed("decode up fwd", "forward", _DECODE, _config(16, 128, 64, 8, 8, swap_operands=True)),
    _timed("decode up fwd", "forward", _DECODE, _config(16, 256, 64, 8, 6, swap_operands=True)),
    _timed("decode up fwd", "forward", _DECODE, _config(16, 128, 128, 8, 5, swap_operands=True)),
    _timed("decode up fwd", "forward", _DECODE, _config(32, 128, 64, 8, 8, swap_operands=True)),
    _timed("decode up fwd", "forward", _DECODE, _config(64, 256, 64, 8, 4, **_BOX)),
]
