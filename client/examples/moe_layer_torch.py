"""A mixture-of-experts layer in PyTorch whose products, forward and backward, are a package's tuned kernels.

    tunefarm export package moe.tfpack          # what was tuned of grouped_gemm_forward, _dx and _dw
    python3 moe_layer_torch.py moe.tfpack       # without a package torch computes them, and a log line says so
"""

import logging
import sys

try:
    import torch

    import tunefarm.torch
except ImportError as error:
    sys.exit(f"moe_layer_torch.py: {error}")

E, TOPK, HIDDEN, INNER = 128, 8, 2048, 768  # Qwen3-30B-A3B


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.router = torch.nn.Linear(HIDDEN, E, bias=False)
        self.up = torch.nn.Parameter(torch.randn(E, 2 * INNER, HIDDEN) * HIDDEN**-0.5)
        self.down = torch.nn.Parameter(torch.randn(E, HIDDEN, INNER) * INNER**-0.5)

    def forward(self, x):
        weights, experts = self.router(x).float().softmax(1).topk(TOPK, dim=1)
        # All that follows is also tunefarm.torch.moe_mlp(x, self.up, self.down, experts, weights).
        sorted_experts, order = experts.flatten().sort(stable=True)
        offs = torch.searchsorted(sorted_experts, torch.arange(E, device=x.device), right=True, out_int32=True)
        rows = x[order // TOPK]
        gate, up = tunefarm.torch.grouped_mm(rows, self.up.transpose(-2, -1), offs).chunk(2, dim=1)
        rows = tunefarm.torch.grouped_mm(torch.nn.functional.silu(gate) * up, self.down.transpose(-2, -1), offs)
        rows = rows * weights.flatten()[order, None].to(x.dtype)
        return torch.zeros_like(x).index_add(0, order // TOPK, rows)


def main(packages):
    if not torch.cuda.is_available():
        sys.exit("moe_layer_torch.py: this machine has no CUDA device that torch can use")
    logging.basicConfig()
    for path in packages:
        tunefarm.torch.load(path)
    torch.manual_seed(0)
    layer = Experts().to("cuda", torch.bfloat16)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    x, target = torch.randn(2, 4096, HIDDEN, device="cuda", dtype=torch.bfloat16)
    step = torch.compile(lambda: (layer(x) - target).float().square().mean())
    for number in range(10):
        loss = step()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {number}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main(sys.argv[1:])
