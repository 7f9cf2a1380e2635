"""Gallop inside other packages. Each module needs its own package, and is imported by its name.

gallop.integrations.langchain.ChatGallop    a chat model of langchain-core
gallop.integrations.lm_eval.GallopLM        a model of lm_eval, registered as "gallop"
"""
