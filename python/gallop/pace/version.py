"""The version of AMD PACE whose API this is."""

__version__ = "1.3.0+gallop"
__version_tuple__ = (1, 3, 0)
