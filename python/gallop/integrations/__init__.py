"""Gallop inside other packages. Each module needs its own package, and is imported by its name.

gallop.integrations.pipeline                a callable like that of Hugging Face's pipeline()
gallop.integrations.langchain.ChatGallop    a chat model of langchain-core
gallop.integrations.llama_index.GallopLLM   a model of llama-index-core
gallop.integrations.lm_eval.GallopLM        a model of lm_eval, registered as "gallop"
"""
from ._pipeline import TextGeneration, pipeline

__all__ = ["TextGeneration", "pipeline"]
