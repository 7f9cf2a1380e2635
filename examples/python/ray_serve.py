"""Ray Serve: replicas, each with an engine of its own, as many as the queues of the engines need.

    pip install "ray[serve]"
    THREADS=4 python examples/python/ray_serve.py [MODEL]
    curl localhost:8000 -d '{"prompt": "Once upon a time", "max_new_tokens": 40}'

Each replica is an actor that owns THREADS cores. Its engine computes up to MAX_SEQS sequences
together, and further requests wait in the engine's queue. Every replica reports how many sequences
run and how many requests wait in its engine; queue_policy() starts as many replicas as have a place
for all of them. A request with n=8 counts as eight, which Ray's own count of requests cannot know.
Other settings: MAX_REPLICAS, PORT, UPSCALE_DELAY_S, DOWNSCALE_DELAY_S and INTERVAL_S, the seconds
between two reports.
"""
import asyncio
import math
import os
import sys

INTERVAL_S = os.environ.get("INTERVAL_S", "2")
# Ray reads these when it is imported.
os.environ.setdefault("RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S", INTERVAL_S)
os.environ.setdefault("RAY_SERVE_HANDLE_AUTOSCALING_METRIC_PUSH_INTERVAL_S", INTERVAL_S)

import gallop
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

THREADS, MAX_SEQS = int(os.environ.get("THREADS", 4)), int(os.environ.get("MAX_SEQS", 16))


def queue_policy(context):
    """Returns the number of replicas that have a place for every request, and no state.

    Counted are what runs and waits in the engines, and the requests that Ray has given to no
    replica yet. Ray applies the limits and delays of autoscaling_config to the number.
    """
    counts = context.aggregated_metrics or {}
    wanted = sum(sum(counts.get(name, {}).values()) for name in ("running", "waiting"))
    return math.ceil((wanted + (context.total_queued_requests or 0)) / MAX_SEQS), {}


@serve.deployment(
    ray_actor_options={"num_cpus": THREADS},
    max_ongoing_requests=4 * MAX_SEQS,
    autoscaling_config={"min_replicas": 1, "max_replicas": int(os.environ.get("MAX_REPLICAS", 8)),
                        "metrics_interval_s": float(INTERVAL_S),
                        "look_back_period_s": 3 * float(INTERVAL_S),
                        "upscale_delay_s": float(os.environ.get("UPSCALE_DELAY_S", 5)),
                        "downscale_delay_s": float(os.environ.get("DOWNSCALE_DELAY_S", 120)),
                        "policy": {"policy_function": queue_policy}})
class Gallop:
    def __init__(self, model=None):
        self.llm = gallop.LLM(model, threads=THREADS, max_num_seqs=MAX_SEQS)
        self.replica = serve.get_replica_context().replica_id.unique_id

    async def record_autoscaling_stats(self):
        """Returns the numbers that queue_policy() gets of each replica."""
        stats = await asyncio.to_thread(self.llm.stats)  # It waits for the end of a step.
        return {"running": stats["n_running"], "waiting": stats["n_waiting"]}

    def check_health(self):
        if self.llm.closed:
            raise RuntimeError("the engine is closed")

    async def __call__(self, request: Request):
        body = await request.json()
        if not isinstance(body, dict) or not isinstance(body.get("prompt"), str):
            return JSONResponse({"error": "prompt: expected a text"}, status_code=400)
        try:
            answer = await self.llm.agenerate(body.pop("prompt"), **body)
        except gallop.NoSpace as e:
            return JSONResponse({"error": str(e)}, status_code=503)
        except (gallop.GallopError, TypeError) as e:
            return JSONResponse({"error": str(e)}, status_code=400)
        texts = [c.text for c in answer.choices] if answer.choices else [answer.text]
        return {"text": answer.text, "texts": texts, "finish_reason": answer.finish_reason,
                "tokens": answer.n_output, "replica": self.replica}


if __name__ == "__main__":
    serve.start(http_options={"port": int(os.environ.get("PORT", 8000))})
    serve.run(Gallop.bind(*sys.argv[1:2]), blocking=True)
