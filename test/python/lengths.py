"""Parameters of answers that run while something else happens."""
LONG = {"max_new_tokens": 400, "ignore_eos": True}
# In an engine of ROOMY: an answer that takes many seconds, so that it runs until it is ended.
ENDLESS = {"max_new_tokens": 1 << 30, "ignore_eos": True}
ROOMY = {"max_num_seqs": 2, "max_model_len": 1 << 16}
