"""gallop_vllm - runs vLLM's requests on Gallop. vLLM finds register() by the entry point "gallop"
of the group vllm.platform_plugins. docs/VLLM.md of Gallop explains how to use it."""

__version__ = "0.1.0"

SUPPORTED = (0, 32)  # major and minor version of vLLM


def register():
    """Returns the name of the platform's class, or None if this version of vLLM is not supported.
    vLLM calls it in each of its processes, so it loads nothing."""
    from vllm.version import __version_tuple__ as version

    if tuple(version[:2]) != SUPPORTED:
        import logging
        logging.getLogger("vllm.gallop").warning(
            "gallop-vllm is not used: it supports vLLM %d.%d, but found %s", *SUPPORTED,
            ".".join(map(str, version)))
        return None
    return "gallop_vllm.platform.GallopPlatform"
