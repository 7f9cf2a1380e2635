"""Ray Serve: replicas, each with an engine of its own, as many as requests need.

    pip install "ray[serve]"
    THREADS=4 python examples/python/ray_serve.py [MODEL]
    curl localhost:8000 -d '{"prompt": "Once upon a time", "max_new_tokens": 40}'

Each replica owns THREADS cores. Its engine computes up to MAX_SEQS requests together; Ray starts
another replica when more requests than that run or wait, and ends one when they are fewer.
"""
import os
import sys

import gallop
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

THREADS, MAX_SEQS = int(os.environ.get("THREADS", 4)), 16


@serve.deployment(
    ray_actor_options={"num_cpus": THREADS},
    max_ongoing_requests=2 * MAX_SEQS,
    autoscaling_config={"min_replicas": 1, "max_replicas": 8,
                        "target_ongoing_requests": MAX_SEQS,
                        "upscale_delay_s": 5, "downscale_delay_s": 120})
class Gallop:
    def __init__(self, model=None):
        self.llm = gallop.LLM(model, threads=THREADS, max_num_seqs=MAX_SEQS)

    def check_health(self):
        self.llm.stats()  # Raises an error if the engine is closed.

    async def __call__(self, request: Request):
        body = await request.json()
        try:
            answer = await self.llm.agenerate(body.pop("prompt", ""), **body)
        except gallop.NoSpace as e:
            return JSONResponse({"error": str(e)}, status_code=503)
        except (gallop.GallopError, TypeError) as e:
            return JSONResponse({"error": str(e)}, status_code=400)
        stats = self.llm.stats()
        return {"text": answer.text, "finish_reason": answer.finish_reason,
                "tokens": answer.n_output, "waiting": stats["n_waiting"]}


if __name__ == "__main__":
    serve.run(Gallop.bind(*sys.argv[1:2]), blocking=True)
