"""Muon, an optimiser for matrices: momentum whose update is made orthogonal by five Newton-Schulz steps.

Follows Keller Jordan, "Muon: An optimizer for hidden layers in neural networks"
(https://kellerjordan.github.io/posts/muon/). Embedding and norms stay with AdamW.
"""

import torch


def orthogonal(g):
    """A matrix with the singular vectors of g and singular values near one."""
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if g.shape[0] > g.shape[1] else x


class Muon(torch.optim.Optimizer):
    """Updates have singular values near one times the rate, larger for tall matrices."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.1):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if "momentum" not in self.state[p]:
                    self.state[p]["momentum"] = torch.zeros_like(p)
                m = self.state[p]["momentum"]
                m.lerp_(p.grad, 1 - group["momentum"])
                u = orthogonal(p.grad.lerp(m, group["momentum"]))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(u, alpha=-group["lr"] * max(1.0, p.shape[0] / p.shape[1]) ** 0.5)
